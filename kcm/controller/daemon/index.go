package daemon

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// selectorIndex is the name of the index behind [setIndex].
const selectorIndex = "nodeSelector"

// setIndex finds the DaemonSets that may have an interest in a node without a
// look at those whose node selector wants other nodes.
type setIndex struct {
	indexer cache.Indexer
}

// newSetIndex adds the index to the informer of DaemonSets.
func newSetIndex(informer cache.SharedIndexInformer) setIndex {
	controller.AddIndex(informer, selectorIndex, selectorKeys)
	return setIndex{informer.GetIndexer()}
}

// anyNode is the key of the DaemonSets without a node selector.
const anyNode = ""

// selectorKeys puts a DaemonSet under one label that its nodes must have: the
// one whose key is the first.
func selectorKeys(obj any) ([]string, error) {
	selector := obj.(*appsv1.DaemonSet).Spec.Template.Spec.NodeSelector
	if len(selector) == 0 {
		return []string{anyNode}, nil
	}
	first := slices.Min(slices.Collect(maps.Keys(selector)))
	return []string{selectorKey(first, selector[first])}, nil
}

func selectorKey(label, value string) string { return label + "=" + value }

// concerned returns all DaemonSets that select one of the nodes, some of which
// may be nil: those without a node selector, and those that are under a label of
// such a node, which may select others. Each is there once. They are the cache's.
func (x setIndex) concerned(nodes ...*corev1.Node) ([]*appsv1.DaemonSet, error) {
	keys := sets.New(anyNode)
	for _, node := range nodes {
		if node == nil {
			continue
		}
		for label, value := range node.Labels {
			keys.Insert(selectorKey(label, value))
		}
	}
	var concerned []*appsv1.DaemonSet
	for key := range keys {
		found, err := x.indexer.ByIndex(selectorIndex, key)
		if err != nil {
			return nil, fmt.Errorf("look up DaemonSets by node selector %q: %w", key, err)
		}
		for _, obj := range found {
			concerned = append(concerned, obj.(*appsv1.DaemonSet))
		}
	}
	return concerned, nil
}
