package options

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

func addServiceAccountFlags(c *config.ComponentConfig, fs *pflag.FlagSet) {
	sa := &c.ServiceAccount
	fs.StringVar(&sa.ServiceAccountKeyFile, "service-account-private-key-file", sa.ServiceAccountKeyFile,
		"File with the private RSA or ECDSA key, PEM-encoded, that signs tokens in Secrets. Without it no such tokens are made.")
	fs.StringVar(&sa.RootCAFile, "root-ca-file", sa.RootCAFile,
		"File with the certificates, PEM-encoded, by which pods recognise the API server. "+
			"They are put into token Secrets and into the ConfigMap kube-root-ca.crt. Default: those of the kubeconfig.")
}

// validateServiceAccount reads the files now, so that a wrong one is found at
// the start and not when this replica becomes the leader.
func validateServiceAccount(c *config.ComponentConfig) []error {
	var errs []error
	sa := &c.ServiceAccount
	if file := sa.ServiceAccountKeyFile; file != "" {
		if _, err := keyutil.PrivateKeyFromFile(file); err != nil {
			errs = append(errs, fmt.Errorf("--service-account-private-key-file: %w", err))
		}
	}
	if file := sa.RootCAFile; file != "" {
		if _, err := cert.CertsFromFile(file); err != nil {
			errs = append(errs, fmt.Errorf("--root-ca-file: %w", err))
		}
	}
	return errs
}
