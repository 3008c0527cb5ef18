package options

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseconfig "k8s.io/component-base/config"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// Validate checks all flags and returns everything that is wrong with them at
// once. Each error names its flag.
func (o *KubeControllerManagerOptions) Validate(known Controllers) error {
	var errs []error
	errs = append(errs, o.validateGates()...)
	errs = append(errs, o.validateLogs()...)
	errs = append(errs, o.validateFiles()...)
	errs = append(errs, o.validateTLS()...)
	errs = append(errs, known.validate(o.Generic.Controllers)...)
	errs = append(errs, o.validateGeneric()...)
	errs = append(errs, validateLeaderElection(&o.Generic.LeaderElection)...)
	errs = append(errs, o.validateLeaderMigration(known)...)
	errs = append(errs, validateValues(&o.groups)...)
	errs = append(errs, validateServiceAccount(o.ComponentConfig)...)
	errs = append(errs, validateCloud(&o.ComponentConfig.KubeCloudShared)...)
	errs = append(errs, o.validateOwnCloud()...)
	errs = append(errs, o.validateRanges(known)...)
	errs = append(errs, o.validateSigning(known)...)
	errs = append(errs, o.validateLegacyTokens(known)...)
	errs = append(errs, o.SecureServing.Validate()...)
	errs = append(errs, o.Authentication.Validate()...)
	errs = append(errs, o.Authorization.Validate()...)
	errs = append(errs, o.Metrics.Validate()...)
	return errors.Join(errs...)
}

// validateGates also makes the feature gates and the emulated version count:
// what other flags may be set to depends on them.
func (o *KubeControllerManagerOptions) validateGates() []error {
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return []error{fmt.Errorf("--feature-gates, --emulated-version or --min-compatibility-version: %w", err)}
	}
	errs := o.ComponentGlobalsRegistry.Validate() // of what has been set
	for i := range errs {
		errs[i] = fmt.Errorf("--emulated-version or --min-compatibility-version: %w", errs[i])
	}
	return errs
}

// validateLogs has the errors name flags. The library names the fields of the
// configuration that they set.
func (o *KubeControllerManagerOptions) validateLogs() []error {
	flags := map[string]string{"format": "--logging-format", "flushFrequency": "--log-flush-frequency", "vmodule": "--vmodule"}
	var errs []error
	for _, err := range logsapi.Validate(o.Logs, feature.DefaultFeatureGate, nil) {
		err.Field = cmp.Or(flags[err.Field], err.Field)
		errs = append(errs, fmt.Errorf("flags for logs: %w", err))
	}
	return errs
}

// validateFiles opens what the flags name, so that a file that is not there is
// found now and by its flag.
func (o *KubeControllerManagerOptions) validateFiles() []error {
	var errs []error
	for _, file := range []struct{ flag, path string }{
		{"kubeconfig", o.Generic.ClientConnection.Kubeconfig},
		{"authentication-kubeconfig", o.Authentication.RemoteKubeConfigFile},
		{"authorization-kubeconfig", o.Authorization.RemoteKubeConfigFile},
		{"client-ca-file", o.Authentication.ClientCert.ClientCA},
		{"requestheader-client-ca-file", o.Authentication.RequestHeader.ClientCAFile},
		{"tls-cert-file", o.SecureServing.ServerCert.CertKey.CertFile},
		{"tls-private-key-file", o.SecureServing.ServerCert.CertKey.KeyFile},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.ReadFile(file.path); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", file.flag, err))
		}
	}
	return errs
}

func (o *KubeControllerManagerOptions) validateTLS() []error {
	var errs []error
	if _, err := cliflag.TLSVersion(o.SecureServing.MinTLSVersion); err != nil {
		errs = append(errs, fmt.Errorf("--tls-min-version: %w", err))
	}
	if _, err := cliflag.TLSCipherSuites(o.SecureServing.CipherSuites); err != nil {
		errs = append(errs, fmt.Errorf("--tls-cipher-suites: %w", err))
	}
	return errs
}

// validateGeneric returns all that is wrong with the flags of every controller
// manager and the timeout for stopping. Each error begins with the flag and its value.
func (o *KubeControllerManagerOptions) validateGeneric() []error {
	var errs []error
	connection := &o.Generic.ClientConnection
	if connection.QPS > 0 && connection.Burst < 1 || connection.QPS == 0 && connection.Burst < 0 {
		errs = append(errs, fmt.Errorf("--kube-api-burst=%d: lets no request through while --kube-api-qps=%v", connection.Burst, connection.QPS))
	}
	errs = append(errs, notNegative("min-resync-period", o.Generic.MinResyncPeriod.Duration)...)
	errs = append(errs, notNegative("controller-start-interval", o.Generic.ControllerStartInterval.Duration)...)
	return append(errs, notNegative("controller-shutdown-timeout", o.ControllerShutdownTimeout)...)
}

// validateLeaderElection checks what the election relies on: a leader that
// cannot renew must give up before its Lease runs out for the others. It returns
// all that is wrong, each error beginning with the flag that is to blame.
func validateLeaderElection(l *componentbaseconfig.LeaderElectionConfiguration) []error {
	if !l.LeaderElect {
		return nil
	}
	var errs []error
	if feature.DefaultFeatureGate.Enabled(features.CoordinatedLeaderElection) {
		errs = append(errs, errors.New("--feature-gates=CoordinatedLeaderElection=true: kcm cannot have the API server choose the leader; turn this gate or --leader-elect off"))
	}
	lease, renew, retry := l.LeaseDuration.Duration, l.RenewDeadline.Duration, l.RetryPeriod.Duration
	if lease < time.Second {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration=%s: must be at least 1s, the Lease counts in whole seconds", lease))
	}
	if lease.Truncate(time.Second) <= renew { // what others read in the Lease
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline=%s: must be less than --leader-elect-lease-duration=%s in whole seconds", renew, lease))
	}
	if retry <= 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period=%s: must be above 0", retry))
	} else if longest := time.Duration(leaderelection.JitterFactor * float64(retry)); renew <= longest {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period=%s: %g times this must be less than --leader-elect-renew-deadline=%s",
			retry, leaderelection.JitterFactor, renew))
	}
	if l.ResourceLock != "leases" {
		errs = append(errs, fmt.Errorf("--leader-elect-resource-lock=%s: must be leases", l.ResourceLock))
	}
	if l.ResourceName == "" || l.ResourceNamespace == "" {
		errs = append(errs, errors.New("--leader-elect-resource-name and --leader-elect-resource-namespace: must not be empty"))
	}
	return errs
}

func notNegative(flag string, value time.Duration) []error {
	if value < 0 {
		return []error{fmt.Errorf("--%s=%s: must not be negative", flag, value)}
	}
	return nil
}
