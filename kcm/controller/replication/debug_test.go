package replication

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestTheDebuggingHandlerShowsWhatIsStillExpected(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &Controller{expectations: controller.NewExpectations(clocktesting.NewFakePassiveClock(since))}
	set := func(name string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid"}}
	}
	c.expectations.Expect(set("web"), 2)
	c.expectations.Expect(set("api"), 0, "b", "a")
	c.expectations.Expect(set("settled"), 1)
	c.expectations.CreationObserved(set("settled"))

	w := httptest.NewRecorder()
	c.DebuggingHandler().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	assert.JSONEq(t, `{"expectations": [
		{"Owner": {"Namespace": "default", "Name": "api"}, "Creations": 0, "Deletions": ["a", "b"], "Since": "2026-01-02T03:04:05Z"},
		{"Owner": {"Namespace": "default", "Name": "web"}, "Creations": 2, "Deletions": [], "Since": "2026-01-02T03:04:05Z"}
	]}`, w.Body.String())
}
