package main

import (
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kcm-book/kcm-book/labs/controlplane/internal/pki"
)

// writeConfig writes the configuration files of the components.
func (c cluster) writeConfig() error {
	kwok, err := kwokConfiguration()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"audit-policy.yaml": auditPolicy,
		"scheduler.yaml":    c.schedulerConfig(),
		"kwok.yaml":         kwok,
	} {
		if err := os.WriteFile(c.Path("config", name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes a kubeconfig for each user, with certificates inside, so that each is a file of its own that
// can be handed around.
func (c cluster) writeKubeconfigs(p *pki.Credentials) error {
	for user, path := range c.Kubeconfigs {
		config := clientcmdapi.NewConfig()
		config.Clusters["lab"] = &clientcmdapi.Cluster{Server: c.Server, CertificateAuthorityData: p.CA.CertPEM}
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{
			ClientCertificateData: p.Clients[user].Cert,
			ClientKeyData:         p.Clients[user].Key,
		}
		config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
		config.CurrentContext = "lab"
		if err := clientcmd.WriteToFile(*config, path); err != nil {
			return err
		}
	}
	return nil
}
