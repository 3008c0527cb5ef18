// Package canary tells whether a loop of a controller manager still works: it gives the loop a fresh object of its
// kind, and waits until the loop has done what it is there for.
package canary

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
)

// Canary is what a loop is tried with.
type Canary struct {
	// Loop is the loop's name, and Does what it has to do.
	Loop string `json:"loop"`
	Does string `json:"does"`
	// Period is how often the loop looks, where nothing wakes it.
	Period metav1.Duration `json:"period"`
	// Script tries it (see [play]).
	Script string `json:"script"`
}

// Flags are for the manager: by default some of its loops have nothing to do.
var Flags = []string{"--allocate-node-cidrs", "--cluster-cidr=10.9.0.0/16"}

//go:embed canaries.yaml
var canaries []byte

// All has a canary for each loop of kcm but those of a cloud, those behind a gate, and one that acts in days.
var All = func() (all []Canary) {
	if err := yaml.UnmarshalStrict(canaries, &all); err != nil {
		panic(err)
	}
	return all
}()

// Try is an error if the loop does not do its work on a cluster within its period and that patience. The canary works
// in that namespace, which no other canary may use meanwhile; if it is not there it is created.
func (c Canary) Try(ctx context.Context, on *cluster.Cluster, namespace string, patience time.Duration) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	manifests := filepath.Join(root, "labs", "scenarios", "manifests")
	script, err := play.ParseScript(c.Does, "namespace $NS\n"+c.Script, manifests)
	if err != nil {
		return err
	}
	s := &play.Setting{Cluster: on, Manifests: []string{manifests}, Patience: c.Period.Duration + patience}
	if _, err = s.Perform(ctx, script, "NS="+namespace, "NAME=canary-"+rand.String(6)); err != nil {
		err = fmt.Errorf("the canary of the %s: %w", c.Loop, err)
	}
	return err
}
