// Command conformance runs upstream's end-to-end specs about controllers, those that every cluster has to pass, on a lab
// cluster: with kcm for the loops that it has and the original for all others, and with the original alone. It prints what
// became of each spec. It runs in the root of the repository; `make prove-conformance` calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

func main() {
	klog.SetLogger(klog.Logger{}) // what client-go says says nothing about a spec
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	if err := run(ctx); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted; what was started is stopped")
		}
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pattern := flag.String("run", "", "run the specs whose names a regular expression matches")
	with := flag.String("with", "both", "who runs the loops: kcm (the original runs those that kcm lacks), original or both, one after the other")
	all := flag.Bool("all", false, "also run the specs that the cluster cannot carry")
	processes := flag.Int("processes", 4, "how many specs run at the same time")
	flag.Parse()
	managers, ok := map[string][]string{"kcm": {"kcm"}, "original": {"original"}, "both": {"kcm", "original"}}[*with]
	if !ok {
		return fmt.Errorf("-with is %q: say kcm, original or both", *with)
	}
	chosen, err := choose(*pattern, *all, cluster.OnKind())
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	r := report{chosen: chosen, managers: managers, outcomes: map[string]map[string]outcome{}}
	for _, manager := range managers {
		t := trial{manager: manager, root: root, dir: filepath.Join(root, "build", "upstream", "conformance-"+manager)}
		if r.outcomes[manager], err = t.run(ctx, chosen, *processes); err != nil {
			return fmt.Errorf("with %s: %w", manager, err)
		}
	}
	fmt.Print(r.table())
	return r.verdict()
}
