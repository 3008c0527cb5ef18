// Command upstream runs suites of upstream's about the loops that kcm has: its integration suites, or its conformance
// specs; with kcm's loops, with the original's, or with both, one after the other. It prints what became of each test
// or spec. It runs in the root of the repository; `make prove-upstream` and `make prove-conformance` call it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/upstream/conformance"
	"github.com/kcm-book/kcm-book/labs/upstream/suites"
	"github.com/kcm-book/kcm-book/labs/verdict"
)

func main() {
	klog.SetLogger(klog.Logger{}) // what client-go says says nothing about a spec
	process.Main("upstream", run)
}

func run(ctx context.Context) error {
	pattern := flag.String("run", "", "run what a regular expression matches: tests, as deployment/TestScaled, or specs")
	with := flag.String("with", "both", "whose loops: kcm, original or both, one after the other")
	processes := flag.Int("processes", 4, "how many specs run at the same time")
	flag.Parse()
	managers, ok := map[string][]string{"kcm": {"kcm"}, "original": {"original"}, "both": {"kcm", "original"}}[*with]
	if !ok {
		return fmt.Errorf("-with is %q: say kcm, original or both", *with)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	var table *verdict.Table
	switch what := flag.Arg(0); what {
	case "suites":
		table, err = suites.Run(ctx, root, *pattern, managers)
	case "conformance":
		table, err = conformance.Run(ctx, root, *pattern, managers, *processes)
	default:
		err = fmt.Errorf("say suites or conformance, behind the flags, and not %q", what)
	}
	if err != nil {
		return err
	}
	fmt.Print(table)
	return table.Err()
}
