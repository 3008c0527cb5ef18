package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
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
		hint := "--help lists all"
		if near := c.nearest(name); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		errs = append(errs, fmt.Errorf("--controllers: there is no controller %q; %s", name, hint))
	}
	return errs
}

// nearest returns the accepted name that takes the fewest edits to get to, or
// "" where that would change more than a third of the letters.
func (c Controllers) nearest(name string) string {
	nearest, limit := "", len(name)/3+1
	for _, known := range slices.Concat(c.Names, c.Accepted, slices.Sorted(maps.Keys(c.Aliases))) {
		if edits := levenshtein.ComputeDistance(name, known); edits < limit {
			nearest, limit = known, edits
		}
	}
	return nearest
}
