package signer

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/client-go/tools/cache"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"

	"github.com/kcm-book/kcm-book/kcm/controller/certificates"
)

var inAYear = midnight.AddDate(1, 0, 0)

func TestARequestIsAnswered(t *testing.T) {
	t.Parallel()
	t.Run("one that is approved gets a certificate", func(t *testing.T) {
		t.Parallel()
		play(t, forAll(newFiles(t, "ca", inAYear)), func(w *world) {
			w.rest(time.Hour)
			assert.Equal(t, "a gets a certificate", w.told())
			csr := w.get("a")
			block, rest := pem.Decode(csr.Status.Certificate)
			require.NotNil(t, block)
			assert.Empty(t, rest, "there is one certificate")
			assert.Equal(t, "CERTIFICATE", block.Type)
			certificate, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			assert.Equal(t, `"CN=system:node:a,O=system:nodes" for [digitalSignature clientAuth] as []`, contents(certificate))
			assert.Equal(t, 2*time.Hour+5*time.Minute, certificate.NotAfter.Sub(certificate.NotBefore), "two hours were asked for")
			assert.Len(t, csr.Status.Conditions, 1, "no condition says so")
		}, asks(t, "a", expiring(7200)))
	})
	t.Run("one that breaks the signer's rules has failed", func(t *testing.T) {
		t.Parallel()
		play(t, forAll(newFiles(t, "ca", inAYear)), func(w *world) {
			w.rest(time.Hour)
			assert.Equal(t, "a gets Failed=True (SignerValidationFailure: subject organization is not system:nodes)", w.told())
			csr := w.get("a")
			assert.Empty(t, csr.Status.Certificate)
			assert.True(t, certificates.IsApproved(csr), "what was said before stays")
			failed := csr.Status.Conditions[1]
			assert.WithinDuration(t, midnight, failed.LastUpdateTime.Time, time.Minute)
		}, asks(t, "a", asking(signed(t, &x509.CertificateRequest{}))))
	})
	t.Run("one that is approved later is answered then", func(t *testing.T) {
		t.Parallel()
		play(t, forAll(newFiles(t, "ca", inAYear)), func(w *world) {
			w.rest(time.Hour)
			assert.Equal(t, "nothing", w.told())
			w.change("a", is(certificatesv1.CertificateApproved, corev1.ConditionTrue))
			w.show()
			assert.Equal(t, "a gets a certificate", w.told())
		}, asks(t, "a", unapproved))
	})
	t.Run("one that cannot be signed is not tried again", func(t *testing.T) {
		t.Parallel()
		play(t, forAll(newFiles(t, "ca", inAYear)), func(w *world) {
			var looks atomic.Int32
			attempt := w.loops[0].loop.Sync
			w.loops[0].loop.Sync = func(ctx context.Context, key cache.ObjectName) error {
				looks.Add(1)
				return attempt(ctx, key)
			}
			w.comes(asks(t, "b", of(legacy, "dance")))
			w.show()
			w.rest(24 * time.Hour)
			assert.Equal(t, "nothing", w.told())
			assert.EqualValues(t, 1, looks.Load())
		})
	})
	t.Run("one for a signer without an authority is left alone", func(t *testing.T) {
		t.Parallel()
		play(t, Signers{kubeletServing: newFiles(t, "ca", inAYear)}, func(w *world) {
			w.rest(time.Hour)
			assert.Equal(t, "nothing", w.told())
		}, asks(t, "a"))
	})
}

func TestEachSignerSignsInItsOwnName(t *testing.T) {
	t.Parallel()
	signers := Signers{kubeletClient: newFiles(t, "for clients", inAYear), legacy: newFiles(t, "for what is old", inAYear)}
	play(t, signers, func(w *world) {
		w.rest(time.Hour)
		for name, want := range map[string]string{"a": "for clients", "b": "for what is old"} {
			block, _ := pem.Decode(w.get(name).Status.Certificate)
			require.NotNil(t, block, name)
			certificate, err := x509.ParseCertificate(block.Bytes)
			require.NoError(t, err)
			assert.Equal(t, want, certificate.Issuer.CommonName, name)
		}
	}, asks(t, "a"), asks(t, "b", of(legacy, clientAuth)))
}

// What an answer is worth that nobody is told of.
func TestOneRequestHasOneCertificate(t *testing.T) {
	t.Parallel()
	timeout := apierrors.NewTimeoutError("the API server does not answer", 0)
	for _, test := range []struct {
		behaviour string
		happens   func(w *world)
		want      string
	}{
		{"an answer that was carried out is not given again, though nobody was told", func(w *world) {
			w.refuse, w.lost = func(string) error { return timeout }, true
			w.rest(time.Millisecond)
			w.refuse = func(string) error { return nil }
			w.show()
			w.rest(time.Hour)
		}, "a gets a certificate"},
		{"a second certificate reaches nobody, though the cache shows none", func(w *world) {
			w.refuse, w.lost = func(string) error { return timeout }, true
			w.rest(time.Millisecond)
			w.refuse = func(string) error { return nil }
			w.rest(time.Second)
			w.show()
			w.rest(time.Hour)
		}, "a gets a certificate; a gets a certificate (Conflict)"},
		{"of two managers one is first", func(w *world) {
			w.start(w.signers)
			w.rest(time.Second)
			w.show()
			w.rest(time.Hour)
		}, "a gets a certificate; a gets a certificate (Conflict)"},
		{"one that has failed meanwhile gets no certificate", func(w *world) {
			w.change("a", is(certificatesv1.CertificateFailed, corev1.ConditionTrue))
			w.rest(time.Second)
			w.show()
			w.rest(time.Hour)
		}, "a gets a certificate (Conflict)"},
		{"another request of the name does not get what the first has asked for", func(w *world) {
			require.NoError(w.t, w.requests.Delete("a"))
			w.comes(asks(w.t, "a", unapproved))
			w.rest(time.Second)
			w.show()
			w.rest(time.Hour)
		}, "a gets a certificate (Conflict)"},
		{"one that is gone is left alone", func(w *world) {
			require.NoError(w.t, w.requests.Delete("a"))
			w.rest(time.Hour)
		}, "a gets a certificate (NotFound)"},
	} {
		t.Run(test.behaviour, func(t *testing.T) {
			t.Parallel()
			play(t, forAll(newFiles(t, "ca", inAYear)), func(w *world) {
				test.happens(w)
				// A sync may have been in conflict more than once until the cache has shown why.
				assert.Equal(t, test.want, strings.Join(compact(w.story), "; "))
				for uid, certificates := range w.given {
					assert.Len(t, certificates, 1, "certificates that somebody has seen for %s", uid)
				}
			}, asks(t, "a"))
		})
	}
	t.Run("a cache that never shows it is asked ever less often", func(t *testing.T) {
		t.Parallel()
		play(t, forAll(newFiles(t, "ca", inAYear)), func(w *world) {
			w.refuse, w.lost = func(string) error { return timeout }, true
			w.rest(time.Millisecond)
			w.refuse = func(string) error { return nil }
			w.rest(24 * time.Hour)
			assert.Equal(t, "a gets a certificate; a gets a certificate (Conflict)", strings.Join(compact(w.story), "; "))
			assert.Less(t, len(w.story), 120, "tries in a day")
		}, asks(t, "a"))
	})
}

func TestARefusalIsNotTheEnd(t *testing.T) {
	t.Parallel()
	resource := certificatesv1.Resource("certificatesigningrequests")
	for _, refusal := range []error{
		apierrors.NewForbidden(resource, "a", errors.New("user not permitted to sign requests")),
		apierrors.NewInvalid(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest").GroupKind(), "a", nil),
		apierrors.NewConflict(resource, "a", errors.New("the object has been modified")),
		webhookerrors.ToStatusErr("policy.example.com", &metav1.Status{Reason: metav1.StatusReasonConflict, Code: 409}),
		apierrors.NewInternalError(errors.New("failed calling webhook")),
		errors.New("EOF"),
	} {
		t.Run(fmt.Sprintf("what is refused with %q is tried again", refusal), func(t *testing.T) {
			t.Parallel()
			play(t, forAll(newFiles(t, "ca", inAYear)), func(w *world) {
				w.refuse = func(name string) error {
					if name == "a" {
						return refusal
					}
					return nil
				}
				w.rest(time.Hour)
				tries := len(w.story)
				assert.Contains(t, w.story, "b gets a certificate", "one that is refused keeps no other")
				assert.Greater(t, tries, 5)
				assert.Less(t, tries, 30, "ever less often")
				w.refuse = func(string) error { return nil }
				w.rest(1001 * time.Second)
				assert.Equal(t, "a gets a certificate", w.story[len(w.story)-1])
			}, asks(t, "a"), asks(t, "b"))
		})
	}
}

func TestWhichFilesASignerHas(t *testing.T) {
	t.Parallel()
	type files = kcmconfig.CSRSigningConfiguration
	shared, own := files{CertFile: "ca.crt", KeyFile: "ca.key"}, files{CertFile: "own.crt", KeyFile: "own.key"}
	all := map[string]files{kubeletClient: shared, kubeletServing: shared, apiClient: shared, legacy: shared}
	for situation, test := range map[string]struct {
		config kcmconfig.CSRSigningControllerConfiguration
		want   map[string]files
	}{
		"no file is named":               {kcmconfig.CSRSigningControllerConfiguration{}, map[string]files{}},
		"a pair is named for all":        {kcmconfig.CSRSigningControllerConfiguration{ClusterSigningCertFile: "ca.crt", ClusterSigningKeyFile: "ca.key"}, all},
		"of the pair for all a half":     {kcmconfig.CSRSigningControllerConfiguration{ClusterSigningCertFile: "ca.crt"}, map[string]files{}},
		"of the pair for all another":    {kcmconfig.CSRSigningControllerConfiguration{ClusterSigningKeyFile: "ca.key"}, map[string]files{}},
		"one signer has a pair":          {kcmconfig.CSRSigningControllerConfiguration{KubeletClientSignerConfiguration: own}, map[string]files{kubeletClient: own}},
		"another signer has a pair":      {kcmconfig.CSRSigningControllerConfiguration{KubeletServingSignerConfiguration: own}, map[string]files{kubeletServing: own}},
		"the signer for clients has one": {kcmconfig.CSRSigningControllerConfiguration{KubeAPIServerClientSignerConfiguration: own}, map[string]files{apiClient: own}},
		"the signer of what is old has":  {kcmconfig.CSRSigningControllerConfiguration{LegacyUnknownSignerConfiguration: own}, map[string]files{legacy: own}},
		"two signers have the same pair": {kcmconfig.CSRSigningControllerConfiguration{KubeletClientSignerConfiguration: own, KubeletServingSignerConfiguration: own}, map[string]files{kubeletClient: own, kubeletServing: own}},
	} {
		assert.Equal(t, test.want, pairsOf(test.config), situation)
	}
	t.Run("a pair that several have is read once", func(t *testing.T) {
		t.Parallel()
		key := newKey(t)
		p := newPair(t, certificatesPEM(t, newCertificate(t, "ca", key, inAYear)), keyPEM(t, key))
		signers, err := NewSigners(kcmconfig.CSRSigningControllerConfiguration{ClusterSigningCertFile: p.certFile, ClusterSigningKeyFile: p.keyFile})
		require.NoError(t, err)
		assert.Len(t, signers, 4)
		assert.Len(t, (&Controller{signers: signers}).files(), 1)
	})
	t.Run("files without an authority are an error", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, nil, keyPEM(t, newKey(t)))
		_, err := NewSigners(kcmconfig.CSRSigningControllerConfiguration{LegacyUnknownSignerConfiguration: files{CertFile: p.certFile, KeyFile: p.keyFile}})
		assert.ErrorContains(t, err, "authority for kubernetes.io/legacy-unknown: read the certificates in "+p.certFile)
	})
}

// compact leaves out what is the same as what comes before it.
func compact(story []string) (short []string) {
	for _, what := range story {
		if len(short) == 0 || short[len(short)-1] != what {
			short = append(short, what)
		}
	}
	return short
}
