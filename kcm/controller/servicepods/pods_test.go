package servicepods

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodIsReachableFromItsAddressToItsEnd(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for what, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"it has no address yet":       {corev1.Pod{}, false},
		"it runs":                     {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}}, true},
		"it has only the list":        {corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}, true},
		"it has failed":               {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, PodIP: "10.0.0.1"}}, false},
		"it has succeeded":            {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, PodIP: "10.0.0.1"}}, false},
		"it is to go, and runs still": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}, true},
	} {
		assert.Equal(t, test.want, IsReachable(&test.pod), what)
	}
}

func TestAddressesAreOfOneFamilyAndInCanonicalForm(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "010.000.000.001"}, {IP: "FD00:0::1"}, {IP: "none"}}}}
	assert.Equal(t, []string{"10.0.0.1"}, Addresses(pod, corev1.IPv4Protocol))
	assert.Equal(t, []string{"fd00::1"}, Addresses(pod, corev1.IPv6Protocol))
}

func TestAServiceHasTheFamiliesThatItNamesOrThatItsAddressIsOf(t *testing.T) {
	t.Parallel()
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	for what, test := range map[string]struct {
		spec corev1.ServiceSpec
		want []corev1.IPFamily
	}{
		"as it says":                  {corev1.ServiceSpec{ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{v6, v4}}, []corev1.IPFamily{v6, v4}},
		"an old one of IPv4":          {corev1.ServiceSpec{ClusterIP: "10.0.0.1"}, []corev1.IPFamily{v4}},
		"an old one of IPv6":          {corev1.ServiceSpec{ClusterIP: "fd00::1"}, []corev1.IPFamily{v6}},
		"an old one that is headless": {corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}, []corev1.IPFamily{v4, v6}},
	} {
		assert.Equal(t, test.want, Families(&corev1.Service{Spec: test.spec}), what)
	}
}

func TestAPodHasAHostnameInTheServiceThatItsSubdomainNames(t *testing.T) {
	t.Parallel()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	assert.Equal(t, "web-0", Hostname(&corev1.Pod{Spec: corev1.PodSpec{Hostname: "web-0", Subdomain: "web"}}, service))
	assert.Empty(t, Hostname(&corev1.Pod{Spec: corev1.PodSpec{Hostname: "web-0", Subdomain: "other"}}, service))
}

func TestLabelsOfAServiceAreTakenOverButForReservedOnes(t *testing.T) {
	t.Parallel()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "blue", "mine": "no", corev1.IsHeadlessService: "no"}}}
	service.Spec.ClusterIP = "10.0.0.1"
	assert.Equal(t, map[string]string{"team": "blue"}, Labels(service, "mine"))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	assert.Equal(t, map[string]string{"team": "blue", corev1.IsHeadlessService: ""}, Labels(service, "mine"))
	assert.Equal(t, "no", service.Labels["mine"], "the Service was changed, and it is the cache's")
	assert.Equal(t, map[string]string{}, Labels(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1"}}))
}
