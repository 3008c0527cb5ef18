package options

import (
	"fmt"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// validateServiceAccount reads the files now, so that a wrong one is found at
// the start and not when this replica becomes the leader.
func validateServiceAccount(c *config.ComponentConfig) []error {
	var errs []error
	sa := &c.SAController
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

// validateLegacyTokens refuses a period after which every token would be unused.
func (o *KubeControllerManagerOptions) validateLegacyTokens(known Controllers) []error {
	period := o.ComponentConfig.LegacySATokenCleaner.CleanUpPeriod.Duration
	if period > 0 || !known.mayRun("legacy-serviceaccount-token-cleaner-controller", o.Generic.Controllers) {
		return nil
	}
	return []error{fmt.Errorf("--legacy-service-account-token-clean-up-period=%s: must be above 0", period)}
}
