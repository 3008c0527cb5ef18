// Package suites runs upstream's integration suites about the loops that kcm has, with kcm's loops or with the
// original's.
//
// The suites are those of k8s.io/kubernetes in the module cache, unchanged but for their imports: what they take from
// the packages of the loops they take from ../shims. Each suite starts an API server in its own process, and etcd.
package suites

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/labs/verdict"
)

// Run runs the tests that a regular expression matches with the loops of each manager, and returns what became of them.
func Run(ctx context.Context, root, pattern string, managers []string) (*verdict.Table, error) {
	w, err := newWorkshop(ctx, root)
	if err != nil {
		return nil, err
	}
	chosen, err := w.choose(pattern)
	if err != nil {
		return nil, err
	}
	table := verdict.New(managers, chosen)
	table.Beside = true
	for _, manager := range managers {
		if err := w.play(ctx, manager, chosen, table); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// differences are the tests that kcm fails on purpose, by suite and name, and why.
//
//go:embed differences.yaml
var differences []byte

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// choose returns the tests that a regular expression matches, named as in deployment/TestScaledRolloutDeployment.
func (w workshop) choose(pattern string) ([]string, error) {
	var all []string
	for _, s := range suites {
		files, _ := filepath.Glob(filepath.Join(w.upstream, "test", "integration", s.name, "*_test.go")) // well-formed
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, found := range testFunction.FindAllStringSubmatch(string(content), -1) {
				if only := about[s.name]; only == nil || slices.Contains(only, found[1]) {
					all = append(all, s.name+"/"+found[1])
				}
			}
		}
	}
	return verdict.Choose(pattern, all, func(test string) string { return test })
}

// of returns those of the tests that the suite has, without its name.
func (s suite) of(tests []string) (names []string) {
	for _, test := range tests {
		if name, ok := strings.CutPrefix(test, s.name+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// outcomes are what became of the tests of a suite, and of their subtests, by suite and name: pass, fail or skip.
type outcomes map[string]string

// failed returns the subtests that have failed.
func (o outcomes) failed(test string) (subtests []string) {
	for sub, became := range o {
		if became == "fail" && strings.HasPrefix(sub, test+"/") {
			subtests = append(subtests, sub)
		}
	}
	slices.Sort(subtests)
	return subtests
}

// intends tells whether kcm may fail a test: the test is listed, or all of its subtests that have failed are.
func (w workshop) intends(test string, became outcomes) bool {
	failed := became.failed(test)
	unintended := func(sub string) bool { return !w.intends(sub, became) }
	return w.intended[test] != "" || len(failed) > 0 && !slices.ContainsFunc(failed, unintended)
}

// note says of a test which subtests a manager has failed, and what of it kcm is to fail and why.
func (w workshop) note(test, manager string, became outcomes) string {
	var lines []string
	for _, name := range append([]string{test}, became.failed(test)...) {
		if name != test {
			lines = append(lines, manager+" fails "+strings.TrimPrefix(name, test+"/"))
		}
		if why := w.intended[name]; why != "" && manager == "kcm" {
			lines = append(lines, "intended: "+why)
		}
	}
	return strings.Join(lines, "\n")
}
