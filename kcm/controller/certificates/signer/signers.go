package signer

import (
	"fmt"
	"maps"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	kcmconfig "k8s.io/kube-controller-manager/config/v1alpha1"
)

// Signers are the authorities of the signers that have one, by the signers' names.
// Several signers may have the same.
type Signers map[string]*AuthorityFiles

// NewSigners reads the authorities that a configuration names. There is none if it
// names none, or only one file of the two that all signers would share. It is an
// error if files do not hold an authority.
func NewSigners(c kcmconfig.CSRSigningControllerConfiguration) (Signers, error) {
	signers, read := Signers{}, map[kcmconfig.CSRSigningConfiguration]*AuthorityFiles{}
	pairs := pairsOf(c)
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		pair := pairs[name]
		if read[pair] == nil {
			files, err := NewAuthorityFiles(pair.CertFile, pair.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("authority for %s: %w", name, err)
			}
			read[pair] = files
		}
		signers[name] = read[pair]
	}
	return signers, nil
}

// pairsOf returns the files of each signer. If any signer has files of its own, a
// signer without has none.
func pairsOf(c kcmconfig.CSRSigningControllerConfiguration) map[string]kcmconfig.CSRSigningConfiguration {
	pairs := map[string]kcmconfig.CSRSigningConfiguration{
		certificatesv1.KubeletServingSignerName:             c.KubeletServingSignerConfiguration,
		certificatesv1.KubeAPIServerClientKubeletSignerName: c.KubeletClientSignerConfiguration,
		certificatesv1.KubeAPIServerClientSignerName:        c.KubeAPIServerClientSignerConfiguration,
		certificatesv1beta1.LegacyUnknownSignerName:         c.LegacyUnknownSignerConfiguration,
	}
	names := slices.Collect(maps.Keys(pairs))
	maps.DeleteFunc(pairs, func(_ string, own kcmconfig.CSRSigningConfiguration) bool {
		return own == kcmconfig.CSRSigningConfiguration{}
	})
	if len(pairs) > 0 || c.ClusterSigningCertFile == "" || c.ClusterSigningKeyFile == "" {
		return pairs
	}
	for _, name := range names {
		pairs[name] = kcmconfig.CSRSigningConfiguration{CertFile: c.ClusterSigningCertFile, KeyFile: c.ClusterSigningKeyFile}
	}
	return pairs
}
