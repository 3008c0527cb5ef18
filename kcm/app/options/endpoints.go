package options

import (
	"fmt"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kcm-book/kcm-book/kcm/app/config"
)

// addEndpointFlags adds the flags of the loops that write down where the pods of
// Services are reached.
func addEndpointFlags(c *config.ComponentConfig, groups *cliflag.NamedFlagSets) {
	fs := groups.FlagSet("endpoints-controller")
	fs.DurationVar(&c.Endpoint.EndpointUpdatesBatchPeriod.Duration, "endpoint-updates-batch-period", 0,
		"How long to wait after a change of a pod until Endpoints are written, and with it what changes until then. Longer means fewer writes, and later news.")

	fs = groups.FlagSet("endpointslice-controller")
	fs.DurationVar(&c.EndpointSlice.EndpointUpdatesBatchPeriod.Duration, "endpointslice-updates-batch-period", 0,
		"How long to wait after a change of a pod until EndpointSlices are written, and with it what changes until then. Longer means fewer writes, and later news.")
	fs.Int32Var(&c.EndpointSlice.MaxEndpointsPerSlice, "max-endpoints-per-slice", 100,
		"How many endpoints an EndpointSlice has at most, 1 to 1000. More means fewer and larger objects.")

	fs = groups.FlagSet("endpointslice-mirroring-controller")
	fs.DurationVar(&c.EndpointSliceMirroring.MirroringEndpointUpdatesBatchPeriod.Duration, "mirroring-endpointslice-updates-batch-period", 0,
		"How long to wait until an EndpointSlice is repaired that somebody else has changed.")
	fs.Int32Var(&c.EndpointSliceMirroring.MirroringMaxEndpointsPerSubset, "mirroring-max-endpoints-per-subset", 1000,
		"How many addresses of those with the same ports are mirrored at most, 1 to 1000.")
}

// validateEndpoints refuses what the original refuses: slices that the API server
// would not take, and more workers than it lets one have.
func validateEndpoints(c *config.ComponentConfig) []error {
	var errs []error
	for _, bound := range []struct {
		flag               string
		value, least, most int32
	}{
		{"concurrent-service-endpoint-syncs", c.EndpointSlice.ConcurrentServiceEndpointSyncs, 0, 50},
		{"max-endpoints-per-slice", c.EndpointSlice.MaxEndpointsPerSlice, 1, 1000},
		{"mirroring-concurrent-service-endpoint-syncs", c.EndpointSliceMirroring.MirroringConcurrentServiceEndpointSyncs, 0, 50},
		{"mirroring-max-endpoints-per-subset", c.EndpointSliceMirroring.MirroringMaxEndpointsPerSubset, 1, 1000},
	} {
		switch {
		case bound.value < bound.least: // that there are workers is checked for all loops
			errs = append(errs, fmt.Errorf("--%s=%d: must be at least %d", bound.flag, bound.value, bound.least))
		case bound.value > bound.most:
			errs = append(errs, fmt.Errorf("--%s=%d: must be at most %d", bound.flag, bound.value, bound.most))
		}
	}
	return errs
}
