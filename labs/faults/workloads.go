package faults

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
)

// Workload is what a user does in a run, as a script of package play says it: its first line is what happens, and its
// file workload.yaml has the fields that have a name there.
type Workload struct {
	Name string `json:"-"`
	Says string `json:"-"`
	// Loops are those that work.
	Loops []string `json:"loops"`
	// Watched are the resources whose watches and lists are disturbed.
	Watched []string `json:"watched"`
	// Needed are others that a manager may watch only when it has to.
	Needed []string `json:"needed"`
	// Bare tells that the loops are to make the namespace's service account.
	Bare bool `json:"bare"`
	// Goes tells that the script deletes the namespace.
	Goes bool `json:"goes"`
	// Labelled are resources in no namespace that the loops write, and of which they see what has the namespace as its
	// zone alone. Elsewhere are the namespaces of resources that the loops look for in another one than the run's.
	Labelled  []string          `json:"labelled"`
	Elsewhere map[string]string `json:"elsewhere"`
	// Single tells that there is one of what the loops write, and not one in each namespace. So one run at a time is
	// played.
	Single bool `json:"single"`
	// Flags are more of the manager's, and Late is how late events are, if not 1.5 s.
	Flags []string        `json:"flags"`
	Late  metav1.Duration `json:"late"`

	script *play.Script
}

// Workloads returns all that are in the folder workloads, by name.
func Workloads() (all []*Workload, err error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "labs/faults/workloads")
	files, _ := filepath.Glob(filepath.Join(dir, "*.txtar")) // the pattern is well-formed
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			return nil, err
		}
		w := &Workload{Name: strings.TrimSuffix(filepath.Base(file), ".txtar")}
		says, _, _ := strings.Cut(string(archive.Comment), "\n")
		w.Says = strings.TrimPrefix(says, "# ")
		i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "workload.yaml" })
		if i < 0 {
			return nil, fmt.Errorf("%s has no file workload.yaml", file)
		}
		if err := yaml.UnmarshalStrict(archive.Files[i].Data, w); err != nil {
			return nil, fmt.Errorf("workload.yaml in %s: %w", file, err)
		}
		if w.script, err = play.ReadScript(file, dir); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}
