package conformance

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	conformance "k8s.io/kubernetes/test/conformance/testdata"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/verdict"
)

// spec is one of upstream's, by its name.
type spec struct {
	name string
	// why it cannot pass on the cluster; it is not run then.
	why string
}

//go:embed specs.yaml
var specsYAML []byte

// choose returns the conformance specs about controllers that pattern matches, by their names, and what
// simulated nodes lack for them, or the kind cluster.
func choose(pattern string, onKind bool) ([]spec, error) {
	var s struct {
		// Controllers are regular expressions of the names of the specs that are about controllers.
		Controllers []string `json:"controllers"`
		// Real are names of specs that need more than simulated nodes, and Kind of those that need more than a kind
		// cluster of one node, by the reason why.
		Real map[string][]string `json:"real"`
		Kind map[string][]string `json:"kind"`
	}
	if err := yaml.UnmarshalStrict(specsYAML, &s); err != nil {
		return nil, fmt.Errorf("specs.yaml: %w", err)
	}
	about := regexp.MustCompile(strings.Join(s.Controllers, "|"))
	content, err := conformance.GetConformanceTestdataFS().ReadTestFile("test/conformance/testdata/conformance.yaml")
	if err != nil {
		return nil, err
	}
	var listed []struct{ Codename string }
	if err := yaml.Unmarshal(content, &listed); err != nil {
		return nil, fmt.Errorf("upstream's list of conformance specs: %w", err)
	}
	lacks := s.Real
	if onKind {
		lacks = s.Kind
	}
	reasons := map[string]string{}
	for why, left := range lacks {
		for _, name := range left {
			reasons[name] = why
		}
	}
	var specs []spec
	for _, s := range listed {
		if about.MatchString(s.Codename) {
			specs = append(specs, spec{s.Codename, reasons[s.Codename]})
		}
	}
	slices.SortFunc(specs, func(a, b spec) int { return strings.Compare(a.name, b.name) })
	return verdict.Choose(pattern, specs, func(s spec) string { return s.name })
}

// focus is a regular expression that matches these specs.
func focus(specs []spec) string {
	return strings.Join(verdict.Names(specs, func(s spec) string { return regexp.QuoteMeta(s.name) }), "|")
}
