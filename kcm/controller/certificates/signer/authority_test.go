package signer

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	"pgregory.net/rapid"
)

func authorityUntil(t *testing.T, until time.Time) *Authority {
	t.Helper()
	key := newKey(t)
	return &Authority{Certificate: newCertificate(t, "ca", key, until), Key: key}
}

func TestHowLongACertificateIsValid(t *testing.T) {
	t.Parallel()
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	for _, test := range []struct {
		situation string
		seconds   *int32
		longest   time.Duration
		end       time.Duration // of the authority, from now
		want      string
	}{
		{"nothing is asked for", nil, year, 10 * year, "-5m0s to 8759h55m0s"},
		{"an hour is asked for", new(int32(3600)), year, 10 * year, "-5m0s to 1h0m0s"},
		{"a second less than eight hours is asked for", new(int32(28799)), year, 10 * year, "-5m0s to 7h59m59s"},
		{"eight hours are asked for", new(int32(28800)), year, 10 * year, "-5m0s to 7h55m0s"},
		{"as much as is allowed is asked for", new(int32(86400)), day, 10 * year, "-5m0s to 23h55m0s"},
		{"more than is allowed is asked for", new(int32(86401)), day, 10 * year, "-5m0s to 23h55m0s"},
		{"as much as there can be is asked for", new(int32(math.MaxInt32)), 100 * year, 100 * year, "-5m0s to 596523h9m7s"},
		{"a second is asked for, which the API server does not let in", new(int32(1)), year, 10 * year, "-5m0s to 10m0s"},
		{"a time below zero is asked for", new(int32(math.MinInt32)), year, 10 * year, "-5m0s to 10m0s"},
		{"certificates are short", nil, time.Minute, 10 * year, "-5m0s to 1m0s"},
		{"the authority ends in an hour", nil, year, time.Hour, "-5m0s to 1h0m0s"},
		{"the authority ends with the certificate", new(int32(3600)), year, time.Hour, "-5m0s to 1h0m0s"},
		{"the authority ends in a second", nil, year, time.Second, "-5m0s to 1s"},
		{"the authority ends now", nil, year, 0, "refused"},
		{"the authority has ended after the backdated beginning", nil, year, -time.Minute, "refused"},
		{"the authority has ended long ago", nil, year, -year, "refused"},
	} {
		t.Run(test.situation, func(t *testing.T) {
			t.Parallel()
			from, until, err := validity(lifetime(test.seconds, test.longest), midnight, midnight.Add(test.end))
			got := fmt.Sprintf("%s to %s", from.Sub(midnight), until.Sub(midnight))
			if err != nil {
				got = "refused"
			}
			assert.Equal(t, test.want, got, "from now; at most %s, and the authority ends in %s", test.longest, test.end)
		})
	}
	t.Run("no certificate outlives its authority or what is allowed", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var seconds *int32
			if rapid.Bool().Draw(t, "asked") {
				seconds = new(rapid.Int32().Draw(t, "seconds"))
			}
			longest := time.Duration(rapid.Int64Range(1, int64(100*year)).Draw(t, "longest"))
			end := midnight.Add(time.Duration(rapid.Int64Range(-int64(day), int64(100*year)).Draw(t, "end")))
			from, until, err := validity(lifetime(seconds, longest), midnight, end)
			if err != nil {
				assert.False(t, midnight.Before(end), "an authority that has not ended signs")
				return
			}
			assert.Equal(t, midnight.Add(-5*time.Minute), from)
			assert.False(t, until.After(end), "the end of the certificate, and that of its authority: %s, %s", until, end)
			assert.LessOrEqual(t, until.Sub(midnight), longest)
		})
	})
}

func TestUsagesAreInOneOrder(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"client auth,server auth,any":                                "anyExtendedKeyUsage serverAuth clientAuth",
		"server auth,any,client auth":                                "anyExtendedKeyUsage serverAuth clientAuth",
		"s/mime,email protection":                                    "emailProtection",
		"signing,digital signature":                                  "digitalSignature",
		"decipher only,crl sign,key agreement,content commitment":    "contentCommitment keyAgreement cRLSign decipherOnly",
		"netscape sgc,microsoft sgc,ocsp signing,timestamping":       "timeStamping OCSPSigning msSGC nsSGC",
		"ipsec user,ipsec tunnel,ipsec end system,code signing":      "codeSigning ipsecEndSystem ipsecTunnel ipsecUser",
		"encipher only,cert sign,data encipherment,key encipherment": "keyEncipherment dataEncipherment keyCertSign encipherOnly",
	} {
		var usages []certificatesv1.KeyUsage
		for _, usage := range strings.Split(asked, ",") {
			usages = append(usages, certificatesv1.KeyUsage(usage))
		}
		bits, extended, err := parseUsages(usages)
		require.NoError(t, err, asked)
		got := contents(&x509.Certificate{KeyUsage: bits, ExtKeyUsage: extended})
		assert.Contains(t, got, "for ["+want+"]", asked)
	}
	_, _, err := parseUsages([]certificatesv1.KeyUsage{"Client Auth", clientAuth, ""})
	assert.EqualError(t, err, `unrecognized usage values: ["Client Auth" ""]`)
}

func TestWhatIsSignedIsTheAuthoritys(t *testing.T) {
	t.Parallel()
	authority := authorityUntil(t, midnight.AddDate(1, 0, 0))
	todo, err := decide(asks(t, "a"))
	require.NoError(t, err)
	der, err := authority.Sign(todo.certificate, time.Hour, midnight)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	require.NoError(t, certificate.CheckSignatureFrom(authority.Certificate))
	assert.Equal(t, authority.Certificate.RawSubject, certificate.RawIssuer)
	assert.Equal(t, authority.Certificate.SubjectKeyId, certificate.AuthorityKeyId)
	assert.Empty(t, certificate.SubjectKeyId)
	assert.True(t, todo.certificate.PublicKey.(*ecdsa.PublicKey).Equal(certificate.PublicKey))
	again, err := authority.Sign(todo.certificate, time.Hour, midnight)
	require.NoError(t, err)
	assert.NotEqual(t, der, again, "each certificate has a serial number of its own")
	assert.Nil(t, todo.certificate.SerialNumber, "what was to be signed is as it was")
	assert.True(t, todo.certificate.NotAfter.IsZero())

	stranger := &Authority{Certificate: authority.Certificate, Key: newKey(t)}
	_, err = stranger.Sign(todo.certificate, time.Hour, midnight)
	assert.Error(t, err, "the key is not that of the certificate")
}

func TestARequestInTheNameOfItsIssuerGetsNoAuthority(t *testing.T) {
	t.Parallel()
	authority := authorityUntil(t, midnight.AddDate(1, 0, 0))
	request := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ca"}} // the authority's own name
	todo, err := decide(asks(t, "a", of(apiClient, clientAuth), asking(signed(t, request))))
	require.NoError(t, err)
	der, err := authority.Sign(todo.certificate, time.Hour, midnight)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	assert.False(t, certificate.IsCA)
	assert.Empty(t, certificate.AuthorityKeyId, "as in the original: Go takes it for its own issuer")
}
