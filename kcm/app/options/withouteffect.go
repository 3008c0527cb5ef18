package options

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// withoutEffectGroup is the heading of flags in --help that do nothing.
const withoutEffectGroup = "accepted without effect"

// flagsWithoutEffect are flags that kubeadm and kind put into the manifest of
// kube-controller-manager for controllers that kcm does not have. They are
// accepted so that the manifest can be used as it is. The value tells whether
// the flag may stand without one.
var flagsWithoutEffect = map[string]bool{
	"allocate-node-cidrs":         true,
	"cloud-provider":              false,
	"cluster-cidr":                false,
	"cluster-name":                false,
	"cluster-signing-cert-file":   false,
	"cluster-signing-duration":    false,
	"cluster-signing-key-file":    false,
	"configure-cloud-routes":      true,
	"enable-hostpath-provisioner": true,
	"flex-volume-plugin-dir":      false,
	"node-cidr-mask-size":         false,
	"node-cidr-mask-size-ipv4":    false,
	"node-cidr-mask-size-ipv6":    false,
	"node-monitor-grace-period":   false,
	"node-monitor-period":         false,
	"service-cluster-ip-range":    false,
	"terminated-pod-gc-threshold": false,
}

func addFlagsWithoutEffect(fs *pflag.FlagSet) {
	for name, isSwitch := range flagsWithoutEffect {
		fs.String(name, "", "For a controller of kube-controller-manager that kcm does not have.")
		if isSwitch {
			fs.Lookup(name).NoOptDefVal = "true"
		}
	}
}

// LogFlagsWithoutEffect says which flags were given for nothing.
func LogFlagsWithoutEffect(ctx context.Context, fs *pflag.FlagSet) {
	fs.Visit(func(flag *pflag.Flag) {
		if _, found := flagsWithoutEffect[flag.Name]; found {
			klog.FromContext(ctx).Info("Flag has no effect: kcm does not have the controller that it is for",
				"flag", "--"+flag.Name, "value", flag.Value.String())
		}
	})
}
