package cluster

import (
	"encoding/json"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// state is what a cluster's cluster.json says: where its files are. An embedded cluster also prints it when it is ready.
type state struct {
	// Kind tells whose directory it is.
	Kind                  string            `json:"kind"`
	Dir                   string            `json:"dir"`
	Server                string            `json:"server"`
	Kubeconfigs           map[string]string `json:"kubeconfigs"`
	RootCA                string            `json:"rootCA"`
	ServiceAccountKey     string            `json:"serviceAccountKey"`
	NextServiceAccountKey string            `json:"nextServiceAccountKey"`
	AuditLog              string            `json:"auditLog"`
}

// stateFile makes a directory a cluster's.
const stateFile = "cluster.json"

// access is the part of a cluster that is read from its files.
type access struct {
	state   state
	configs map[User]*rest.Config
}

// load takes the state as cluster.json has it, and reads the kubeconfigs.
func (a *access) load(content []byte) error {
	if err := json.Unmarshal(content, &a.state); err != nil {
		return fmt.Errorf("read the state of the lab cluster: %w", err)
	}
	a.configs = map[User]*rest.Config{}
	for user, path := range a.state.Kubeconfigs {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return fmt.Errorf("read kubeconfig of %s: %w", user, err)
		}
		config.QPS = -1
		a.configs[User(user)] = config
	}
	return nil
}

func (a *access) Dir() string                       { return a.state.Dir }
func (a *access) Server() string                    { return a.state.Server }
func (a *access) Kubeconfig(user User) string       { return a.state.Kubeconfigs[string(user)] }
func (a *access) RESTConfig(user User) *rest.Config { return rest.CopyConfig(a.configs[user]) }
func (a *access) RootCAFile() string                { return a.state.RootCA }
func (a *access) ServiceAccountKeyFile() string     { return a.state.ServiceAccountKey }
func (a *access) NextServiceAccountKeyFile() string { return a.state.NextServiceAccountKey }
func (a *access) AuditLog() string                  { return a.state.AuditLog }

func (a *access) AuditEvents(keep func(AuditEvent) bool) ([]AuditEvent, error) {
	return ReadAuditLog(a.state.AuditLog, keep)
}
