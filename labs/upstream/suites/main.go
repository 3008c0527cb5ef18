// Command suites runs upstream's integration suites about the loops that kcm has, with kcm's loops, with the original's, or
// with both, and prints what became of each test. It runs in the root of the repository; `make prove-upstream` calls it.
//
// The suites are those of k8s.io/kubernetes in the module cache, unchanged but for their imports: what they take from the
// packages of the loops they take from ../shims. Each suite starts an API server in its own process, and etcd.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"sigs.k8s.io/yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	if err := run(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted; what was started is stopped")
		}
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pattern := flag.String("run", "", "run the tests that a regular expression matches, such as deployment/TestScaled")
	with := flag.String("with", "both", "whose loops: kcm, original or both, one after the other")
	flag.Parse()
	managers, ok := map[string][]string{"kcm": {"kcm"}, "original": {"original"}, "both": {"kcm", "original"}}[*with]
	if !ok {
		return fmt.Errorf("-with is %q: say kcm, original or both", *with)
	}
	intended, err := differences()
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	w, err := newWorkshop(ctx, root)
	if err != nil {
		return err
	}
	chosen, err := w.choose(*pattern)
	if err != nil {
		return err
	}
	results := report{intended: intended, chosen: chosen, managers: managers}
	for _, manager := range managers {
		if err := w.play(ctx, manager, chosen, &results); err != nil {
			return err
		}
	}
	fmt.Print(results.table())
	return results.verdict()
}

//go:embed differences.yaml
var differencesYAML []byte

// differences are the tests that kcm fails on purpose, by suite and name, and why.
func differences() (map[string]string, error) {
	reasons := map[string]string{}
	if err := yaml.UnmarshalStrict(differencesYAML, &reasons); err != nil {
		return nil, fmt.Errorf("differences.yaml: %w", err)
	}
	return reasons, nil
}

// selection are the tests of one suite that are to run.
type selection struct {
	suite
	tests []string
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// choose returns the tests that a regular expression matches, named as in deployment/TestScaledRolloutDeployment.
func (w workshop) choose(pattern string) ([]selection, error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("ONLY: %w", err)
	}
	var chosen []selection
	for _, s := range suites {
		files, err := filepath.Glob(filepath.Join(w.upstream, "test", "integration", s.name, "*_test.go"))
		if err != nil {
			return nil, err
		}
		of := selection{suite: s}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, found := range testFunction.FindAllStringSubmatch(string(content), -1) {
				if wanted.MatchString(s.name + "/" + found[1]) {
					of.tests = append(of.tests, found[1])
				}
			}
		}
		if len(of.tests) > 0 {
			chosen = append(chosen, of)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no test matches %q; they are named as in deployment/TestScaledRolloutDeployment", pattern)
	}
	return chosen, nil
}

// expression is what a test binary's -test.run takes.
func (s selection) expression() string { return "^(" + strings.Join(s.tests, "|") + ")$" }
