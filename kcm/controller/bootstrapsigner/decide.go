package bootstrapsigner

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	"k8s.io/cluster-bootstrap/util/secrets"
	"k8s.io/utils/ptr"
)

// plan is what is to be done about cluster-info.
type plan struct {
	// update is the ConfigMap with other signatures, or nil.
	update *corev1.ConfigMap
	// again is when the first of the tokens that sign runs out, or zero.
	again time.Time
	// obstacle says why not everything could be signed, or is empty.
	obstacle string
	unsigned []unsigned
}

// unsigned is a Secret with which nothing is signed, and why.
type unsigned struct {
	secret *corev1.Secret
	reason string
}

// decide compares the signatures in cluster-info with those that ought to be
// there by now, and returns what has to be written, if anything. It does not
// change what is seen. If there is no place for all signatures, the older tokens
// sign. If not everything could be signed, the obstacle says why.
func decide(seen *corev1.ConfigMap, tokens []*corev1.Secret, now time.Time) plan {
	text, ok := seen.Data[bootstrapapi.KubeConfigKey]
	if !ok {
		return plan{obstacle: "it has no " + bootstrapapi.KubeConfigKey}
	}
	var p plan
	cm := seen.DeepCopy()
	maps.DeleteFunc(cm.Data, func(key, _ string) bool { return strings.HasPrefix(key, bootstrapapi.JWSSignatureKeyPrefix) })
	room := corev1.MaxSecretSize - size(cm)
	for _, secret := range slices.SortedFunc(slices.Values(tokens), byAge) {
		t, reason := tokenOf(secret, now)
		if reason == "" {
			reason = t.sign(cm, text, &room)
		}
		if reason == noRoom {
			p.obstacle = "it is full"
		}
		if reason != "" {
			p.unsigned = append(p.unsigned, unsigned{secret, reason})
			continue
		}
		if p.again.IsZero() || !t.end.IsZero() && t.end.Before(p.again) {
			p.again = t.end
		}
	}
	switch {
	case maps.Equal(cm.Data, seen.Data):
	case ptr.Deref(seen.Immutable, false):
		p.obstacle = "it is immutable; delete it, and make it anew" // the API server would refuse any change for ever
	default:
		p.update = cm
	}
	return p
}

func byAge(a, b *corev1.Secret) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// size is what the API server counts of a ConfigMap. It takes none in which that
// is more than [corev1.MaxSecretSize].
func size(cm *corev1.ConfigMap) (bytes int) {
	for _, value := range cm.Data {
		bytes += len(value)
	}
	for _, value := range cm.BinaryData {
		bytes += len(value)
	}
	return bytes
}

// token is a bootstrap token that may sign.
type token struct {
	id, secret string
	// end is when it runs out. It is zero for a token that does not.
	end time.Time
}

// tokenOf returns the token in a Secret, or the reason why that may not sign now.
func tokenOf(secret *corev1.Secret, now time.Time) (t token, reason string) {
	id, named := secrets.ParseName(secret.Name)
	end, ends := endOf(secret)
	data := func(key string) string { return string(secret.Data[key]) }
	switch {
	case !named:
		return token{}, "its name is not bootstrap-token- and an ID of six small letters or digits"
	case data(bootstrapapi.BootstrapTokenIDKey) != id:
		return token{}, "its token-id is not that of its name"
	case data(bootstrapapi.BootstrapTokenSecretKey) == "":
		return token{}, "it has no token-secret"
	case data(bootstrapapi.BootstrapTokenUsageSigningKey) != "true":
		return token{}, "its usage-bootstrap-signing is not true"
	case ends && !end.After(now):
		return token{}, "it has run out"
	}
	return token{id, data(bootstrapapi.BootstrapTokenSecretKey), end}, ""
}

// endOf returns when a token runs out. It is not ok for one that does not. What is
// no time reads as the year 1, so a token that says it has run out.
func endOf(secret *corev1.Secret) (end time.Time, ok bool) {
	expiration := string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey])
	if expiration == "" {
		return time.Time{}, false
	}
	end, _ = time.Parse(time.RFC3339, expiration) // what cannot be parsed is the zero time
	return end, true
}

// noRoom is why nothing is signed with a token when cluster-info is full.
const noRoom = "there is no room for its signature"

// sign puts a signature of the text into a ConfigMap, in the form that kubeadm
// computes itself and compares, and takes its size off the room that is left. If
// that is not enough it returns the reason, and there is no room for any other:
// IDs have the same length. The API server counts no keys, but etcd does, and has
// each twice: in the data, and in the managed fields.
func (t token) sign(cm *corev1.ConfigMap, text string, room *int) (reason string) {
	if *room <= 0 {
		return noRoom
	}
	signature, err := jws.ComputeDetachedSignature(text, t.id, t.secret)
	if err != nil {
		return err.Error()
	}
	key := bootstrapapi.JWSSignatureKeyPrefix + t.id
	needs := len(signature) + 2*len(key)
	if needs > *room {
		*room = 0
		return noRoom
	}
	*room -= needs
	cm.Data[key] = signature
	delete(cm.BinaryData, key) // a key may be in one of the two only
	return ""
}
