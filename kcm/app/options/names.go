package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Controllers says which names may stand in --controllers.
type Controllers struct {
	// Names of the controllers that there are.
	Names []string
	// DisabledByDefault are those that "*" does not mean.
	DisabledByDefault []string
	// Accepted are all names that kube-controller-manager knows. Those that
	// are not in Names do nothing here.
	Accepted []string
	// Aliases lead from older names to accepted ones.
	Aliases map[string]string
}

// validate checks what was given to --controllers.
func (c Controllers) validate(given []string) []error {
	var errs []error
	for _, item := range given {
		name := strings.TrimPrefix(item, "-")
		_, isAlias := c.Aliases[name]
		if item == "*" || isAlias || slices.Contains(c.Accepted, name) {
			continue
		}
		errs = append(errs, fmt.Errorf("--controllers: there is no controller %q; did you mean %q?", name, c.nearest(name)))
	}
	return errs
}

// nearest returns the accepted name that takes the fewest edits to get to.
func (c Controllers) nearest(name string) string {
	// cobra knows how to find the subcommand that somebody meant.
	parent := &cobra.Command{}
	for _, known := range slices.Concat(c.Names, c.Accepted, slices.Sorted(maps.Keys(c.Aliases))) {
		parent.AddCommand(&cobra.Command{Use: known, Run: func(*cobra.Command, []string) {}})
	}
	for {
		parent.SuggestionsMinimumDistance++
		if found := parent.SuggestionsFor(name); len(found) > 0 {
			return found[0]
		}
	}
}
