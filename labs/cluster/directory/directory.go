// Package directory says where the files of a cluster are, wherever it runs.
package directory

// Files are the files of a cluster, by path, and where its API server is. An embedded cluster prints them when it is ready.
type Files struct {
	Dir    string `json:"dir"`
	Server string `json:"server"`
	// Kubeconfigs are self-contained, by user.
	Kubeconfigs           map[string]string `json:"kubeconfigs"`
	RootCA                string            `json:"rootCA"`
	ServiceAccountKey     string            `json:"serviceAccountKey"`
	NextServiceAccountKey string            `json:"nextServiceAccountKey"`
	AuditLog              string            `json:"auditLog"`
}
