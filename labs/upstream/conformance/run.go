// Package conformance runs upstream's end-to-end specs about controllers, those that every cluster has to pass, on a lab
// cluster: with kcm for the loops that it has and the original for all others, or with the original alone.
package conformance

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/verdict"
)

// Run runs the specs that a regular expression matches with each manager, as many at the same time as there are processes,
// and returns what became of them. With all, none is left out for what the cluster lacks.
func Run(ctx context.Context, root, pattern string, managers []string, all bool, processes int) (*verdict.Table, error) {
	chosen, err := choose(pattern, all, cluster.OnKind())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range chosen {
		names = append(names, s.name)
	}
	table := verdict.New(managers, names)
	table.Beside = true
	for _, manager := range managers {
		t := trial{manager: manager, root: root, dir: filepath.Join(root, "build", "upstream", "conformance-"+manager)}
		results, err := t.run(ctx, chosen, processes)
		if err != nil {
			return nil, fmt.Errorf("with %s: %w", manager, err)
		}
		for _, s := range chosen {
			if s.why != "" {
				results[s.name] = verdict.Result{Mark: verdict.Skipped, Note: "left out: " + s.why}
			}
			table.Put(manager, s.name, results[s.name])
		}
	}
	return table, nil
}
