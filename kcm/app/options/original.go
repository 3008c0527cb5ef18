package options

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

//go:embed original.yaml
var originalYAML []byte

// Original is what kube-controller-manager takes.
type Original struct {
	Controllers []OriginalController
	// Groups are the flags in the order of its --help.
	Groups []struct {
		Name  string
		Flags []originalFlag
	}
}

// OriginalController is a controller as --controllers knows it.
type OriginalController struct {
	Name              string
	Aliases           []string
	DisabledByDefault bool
}

// originalFlag is a flag and what the original accepts as its value.
type originalFlag struct {
	Name, Type, Default string
	// Min, Max and OneOf restrict the value where they are not empty.
	Min, Max string
	OneOf    []string
	// Hidden flags are accepted and not in --help.
	Hidden bool
}

// ReadOriginal returns what stands in original.yaml.
var ReadOriginal = sync.OnceValue(func() *Original {
	original := &Original{}
	if err := yaml.UnmarshalStrict(originalYAML, original); err != nil {
		panic(fmt.Sprintf("original.yaml: %v", err)) // it is part of the program
	}
	return original
})

// groupOf returns the group in which the original has a flag.
func (o *Original) groupOf(flag string) string {
	for _, group := range o.Groups {
		if slices.ContainsFunc(group.Flags, func(f originalFlag) bool { return f.Name == flag }) {
			return group.Name
		}
	}
	panic(fmt.Sprintf("original.yaml: there is no --%s", flag)) // a mistake in this program
}

// withoutEffect marks flags that do nothing.
const withoutEffect = "without effect"

// addFlagsWithoutEffect adds the flags of the original that nothing has added
// yet, and puts all groups into the original's order.
func addFlagsWithoutEffect(groups *cliflag.NamedFlagSets) {
	all := pflag.NewFlagSet("all", pflag.ContinueOnError)
	for _, fs := range groups.FlagSets {
		all.AddFlagSet(fs)
	}
	var order []string
	for _, group := range ReadOriginal().Groups {
		order = append(order, group.Name)
		for _, flag := range group.Flags {
			if all.Lookup(flag.Name) == nil {
				flag.addWithoutEffect(groups.FlagSet(group.Name))
			}
		}
	}
	groups.Order = order
}

func (f *originalFlag) addWithoutEffect(fs *pflag.FlagSet) {
	const usage = "Has no effect yet: kcm does not have what it is for."
	switch f.Type {
	case "bool":
		fs.Bool(f.Name, false, usage)
	case "duration":
		fs.Duration(f.Name, 0, usage)
	case "float32":
		fs.Float32(f.Name, 0, usage)
	case "float64":
		fs.Float64(f.Name, 0, usage)
	case "int32":
		fs.Int32(f.Name, 0, usage)
	case "string":
		fs.String(f.Name, "", usage)
	default:
		panic(fmt.Sprintf("original.yaml: --%s has the type %s, which no flag without effect has had so far", f.Name, f.Type))
	}
	flag := fs.Lookup(f.Name)
	if err := flag.Value.Set(f.Default); err != nil {
		panic(fmt.Sprintf("original.yaml: the default of --%s: %v", f.Name, err))
	}
	flag.DefValue, flag.Hidden = f.Default, f.Hidden
	flag.Annotations = map[string][]string{withoutEffect: nil}
}

// validateValues refuses what the original would refuse, so that a manifest that
// kcm accepts is one that the original accepts. Which texts a flag takes is left to
// what has an effect itself.
func validateValues(groups *cliflag.NamedFlagSets) []error {
	var errs []error
	for _, group := range ReadOriginal().Groups {
		for _, known := range group.Flags {
			flag := groups.FlagSet(group.Name).Lookup(known.Name)
			if flag == nil {
				continue
			}
			if !isWithoutEffect(flag) {
				known.OneOf = nil
				if strings.Contains(known.Name, "concurrent-") {
					known.Min = "1" // or nothing would ever be synced
				}
			}
			if want := known.wants(flag.Value); want != "" {
				errs = append(errs, fmt.Errorf("--%s=%s: must be %s", flag.Name, flag.Value, want))
			}
		}
	}
	return errs
}

// wants returns what the value should be, or "" where it is that.
func (f *originalFlag) wants(value pflag.Value) string {
	switch {
	case f.Min != "" && number(value.String()) < number(f.Min):
		return "at least " + f.Min
	case f.Max != "" && number(value.String()) > number(f.Max):
		return "at most " + f.Max
	case len(f.OneOf) > 0 && !slices.Contains(f.OneOf, value.String()):
		return fmt.Sprintf("one of %q", f.OneOf)
	}
	return ""
}

// number returns the number, or the seconds, that the value of a flag says.
func number(value string) float64 {
	if d, err := time.ParseDuration(value); err == nil {
		return d.Seconds()
	}
	n, _ := strconv.ParseFloat(value, 64) // the flag's type has seen to it that it is one
	return n
}

func isWithoutEffect(flag *pflag.Flag) bool {
	_, found := flag.Annotations[withoutEffect]
	return found
}

// LogFlagsWithoutEffect says which flags were given for nothing.
func LogFlagsWithoutEffect(ctx context.Context, fs *pflag.FlagSet) {
	fs.Visit(func(flag *pflag.Flag) {
		if isWithoutEffect(flag) {
			klog.FromContext(ctx).Info("Flag has no effect yet: kcm does not have what it is for",
				"flag", "--"+flag.Name, "value", flag.Value.String())
		}
	})
}
