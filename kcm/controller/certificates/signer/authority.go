package signer

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Authority is a certificate authority: a certificate, and the key that signs in
// its name.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// Sign returns a certificate in DER that is what [Requested] has returned, issued by
// the authority and valid as long as the lifetime says, but not beyond the
// authority's own end. An error is the authority's: with another one it may work.
func (a *Authority) Sign(requested *x509.Certificate, lifetime time.Duration, now time.Time) ([]byte, error) {
	from, until, err := validity(lifetime, now, a.Certificate.NotAfter)
	if err != nil {
		return nil, err
	}
	template := *requested
	template.NotBefore, template.NotAfter = from, until
	return x509.CreateCertificate(rand.Reader, &template, a.Certificate, requested.PublicKey, a.Key)
}

// Requested returns the certificate that a request asks for, with the usages that
// are given. Its issuer, its serial number and its times are left open. It is an
// error if who asks does not have the key, or if a usage is unknown.
//
// Of the request it has the public key, the names that it is valid for and the
// subject, as far as Go has fields for its attributes: a user's UID, which the API
// server reads in a certificate (AllowParsingUserUIDFromCertAuth), is not among them.
// Nothing else counts: a request may say that it is for an authority, and gets
// a certificate that says that it is for none.
func Requested(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) (*x509.Certificate, error) {
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check that the request is signed with its own key: %w", err)
	}
	keyUsage, extKeyUsage, err := parseUsages(usages)
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		PublicKey:             request.PublicKey,
		Subject:               request.Subject,
		DNSNames:              request.DNSNames,
		IPAddresses:           request.IPAddresses,
		EmailAddresses:        request.EmailAddresses,
		URIs:                  request.URIs,
		KeyUsage:              keyUsage,
		ExtKeyUsage:           extKeyUsage,
		BasicConstraintsValid: true, // with IsCA false
	}, nil
}

// Usages of the API that are bits of the extension for key usages, and those that
// are listed in the one for extended key usages.
var (
	keyUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
		certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
		certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
		certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
		certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
		certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
		certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
		certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
		certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
		certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
		certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
	}
	extKeyUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
		certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
		certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
		certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
		certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
		certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
		certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
		certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
		certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
		certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
		certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
		certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
		certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
		certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
	}
)

// parseUsages returns usages as Go knows them. The extended ones are in Go's order,
// each once, whatever the order in which they were asked for.
func parseUsages(usages []certificatesv1.KeyUsage) (bits x509.KeyUsage, extended []x509.ExtKeyUsage, err error) {
	var unknown []certificatesv1.KeyUsage
	for _, usage := range usages {
		if bit, ok := keyUsages[usage]; ok {
			bits |= bit
		} else if ext, ok := extKeyUsages[usage]; ok {
			extended = append(extended, ext)
		} else {
			unknown = append(unknown, usage)
		}
	}
	if len(unknown) > 0 {
		return 0, nil, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	slices.Sort(extended)
	return bits, slices.Compact(extended), nil
}

const (
	// backdate is how long before it is made a certificate begins to be valid. The
	// clock of who reads it may be late by as much.
	backdate = 5 * time.Minute
	// A long certificate is valid for its lifetime in all, from its backdated
	// beginning. To one that is not, these minutes matter: it has its lifetime from
	// now on.
	long = 8 * time.Hour
	// shortest is the shortest lifetime that may be asked for.
	shortest = 10 * time.Minute
)

// lifetime returns for how long a certificate is to be valid for which so many
// seconds were asked, or none. The longest that is allowed is also the default.
func lifetime(seconds *int32, longest time.Duration) time.Duration {
	if seconds == nil {
		return longest
	}
	return min(max(time.Duration(*seconds)*time.Second, shortest), longest)
}

// validity returns from when until when a certificate is valid that is made now, by
// an authority that ends at that time.
func validity(lifetime time.Duration, now, end time.Time) (from, until time.Time, err error) {
	if !now.Before(end) {
		return from, until, fmt.Errorf("the authority's certificate was valid until %v", end)
	}
	from = now.Add(-backdate)
	if until = now.Add(lifetime); lifetime >= long {
		until = from.Add(lifetime)
	}
	if until.After(end) {
		until = end
	}
	return from, until, nil
}
