package main

import (
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeConfig writes the configuration files of the components.
func (c *cluster) writeConfig() error {
	stages, err := kwokStages()
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"audit-policy.yaml": auditPolicy,
		"scheduler.yaml":    c.schedulerConfig(),
		"kwok.yaml":         stages,
	} {
		if err := os.WriteFile(c.path("config", name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes a kubeconfig for each user, with certificates inside, so that each is a file of its own that
// can be handed around.
func (c *cluster) writeKubeconfigs(p *pki) error {
	for user, path := range c.Kubeconfigs {
		config := clientcmdapi.NewConfig()
		config.Clusters["lab"] = &clientcmdapi.Cluster{Server: c.Server, CertificateAuthorityData: p.ca.certPEM}
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{
			ClientCertificateData: p.clients[user].cert,
			ClientKeyData:         p.clients[user].key,
		}
		config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
		config.CurrentContext = "lab"
		if err := clientcmd.WriteToFile(*config, path); err != nil {
			return err
		}
	}
	return nil
}
