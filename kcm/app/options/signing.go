package options

import (
	"fmt"
	"slices"

	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"

	"github.com/kcm-book/kcm-book/kcm/app/config"
	"github.com/kcm-book/kcm-book/kcm/controller/certificates/signer"
)

// csrSigning is the loop that goes by what there is to say of certificate
// authorities.
const csrSigning = "certificatesigningrequest-signing-controller"

// signingRows returns the flags about certificate authorities: a pair of files for
// all signers, or pairs for some of them, and for how long what they sign is valid.
func signingRows(c *config.ComponentConfig) []row {
	s := &c.CSRSigningController
	rows := []row{
		{"cluster-signing-cert-file", &s.ClusterSigningCertFile, "File with the certificate, PEM-encoded, of the authority that signs " +
			"for all signers. Of several certificates the one counts that belongs to the key. Without both files nothing is signed."},
		{"cluster-signing-key-file", &s.ClusterSigningKeyFile, "File with the private RSA or ECDSA key of that authority, PEM-encoded."},
		{"cluster-signing-duration", &s.ClusterSigningDuration,
			"For how long a certificate is valid. A request may ask for less in spec.expirationSeconds."},
	}
	for _, own := range ownAuthorities(s) {
		rows = append(rows,
			row{own.flags + "-cert-file", &own.files.CertFile, "The same for " + own.signer + " alone. A signer without its own pair " +
				"then signs nothing, and there must be none for all signers."},
			row{own.flags + "-key-file", &own.files.KeyFile, "The same for " + own.signer + " alone."},
		)
	}
	return rows
}

// ownAuthority is the authority of one signer. The names of the two flags about it
// begin alike.
type ownAuthority struct {
	signer, flags string
	files         *kcmconfig.CSRSigningConfiguration
}

func ownAuthorities(s *kcmconfig.CSRSigningControllerConfiguration) []ownAuthority {
	return []ownAuthority{
		{"kubernetes.io/kubelet-serving", "cluster-signing-kubelet-serving", &s.KubeletServingSignerConfiguration},
		{"kubernetes.io/kube-apiserver-client-kubelet", "cluster-signing-kubelet-client", &s.KubeletClientSignerConfiguration},
		{"kubernetes.io/kube-apiserver-client", "cluster-signing-kube-apiserver-client", &s.KubeAPIServerClientSignerConfiguration},
		{"kubernetes.io/legacy-unknown", "cluster-signing-legacy-unknown", &s.LegacyUnknownSignerConfiguration},
	}
}

// validateSigning checks which files are named, and reads them now if the loop may
// run: a wrong one is found at the start, and not when this replica becomes the
// leader.
func (o *KubeControllerManagerOptions) validateSigning(known Controllers) []error {
	s := &o.ComponentConfig.CSRSigningController
	var errs []error
	shared := s.ClusterSigningCertFile != "" || s.ClusterSigningKeyFile != ""
	for _, own := range ownAuthorities(s) {
		hasCert, hasKey := own.files.CertFile != "", own.files.KeyFile != ""
		if hasCert != hasKey {
			errs = append(errs, fmt.Errorf("--%s-cert-file and --%[1]s-key-file: must both be there, or neither", own.flags))
		}
		if shared && (hasCert || hasKey) {
			errs = append(errs, fmt.Errorf("--%s-cert-file and --%[1]s-key-file: must not be there beside --cluster-signing-cert-file or --cluster-signing-key-file", own.flags))
		}
	}
	if len(errs) > 0 || !known.mayRun(csrSigning, o.Generic.Controllers) {
		return errs
	}
	return validateAuthorities(s)
}

// validateAuthorities returns what is wrong with the authorities that sign. One of
// which a file is not named does not.
func validateAuthorities(s *kcmconfig.CSRSigningControllerConfiguration) []error {
	shared := kcmconfig.CSRSigningConfiguration{CertFile: s.ClusterSigningCertFile, KeyFile: s.ClusterSigningKeyFile}
	all := append(ownAuthorities(s), ownAuthority{flags: "cluster-signing", files: &shared})
	all = slices.DeleteFunc(all, func(a ownAuthority) bool { return a.files.CertFile == "" || a.files.KeyFile == "" })
	var errs []error
	for _, a := range all {
		if _, err := signer.ReadAuthority(a.files.CertFile, a.files.KeyFile); err != nil {
			errs = append(errs, fmt.Errorf("--%s-cert-file and --%[1]s-key-file: %w", a.flags, err))
		}
	}
	if longest := s.ClusterSigningDuration.Duration; longest <= 0 && len(all) > 0 {
		errs = append(errs, fmt.Errorf("--cluster-signing-duration=%s: must be above 0, or no certificate is ever valid", longest))
	}
	return errs
}
