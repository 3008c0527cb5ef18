package daemon

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
)

// templatePatch is what a revision holds: the strategic merge patch that gives
// a DaemonSet this template. kubectl rollout undo sends it as it is. It is the
// original's to the last byte, because a revision is recognised by it.
func templatePatch(template *corev1.PodTemplateSpec) ([]byte, error) {
	content, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("write template: %w", err)
	}
	var fields map[string]any
	if err := jsonutil.Unmarshal(content, &fields); err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// history are the revisions of a DaemonSet, sorted out.
type history struct {
	// current has the set's template. It is nil when none has.
	current *appsv1.ControllerRevision
	// duplicates have the same template as current, and are superfluous.
	duplicates []*appsv1.ControllerRevision
	// old are all others, the oldest first, but for those that are being deleted.
	old []*appsv1.ControllerRevision
	// number is what the current revision's has to be at least: one more than
	// any old one's. So the current one is always the last, also after a
	// return to an old template.
	number int64
}

// sortOut finds the place of each revision in the history of a set whose
// template is held by patch. Of several with this template the one with the
// highest number counts, and one that is being deleted only if no other is there.
func sortOut(revisions []*appsv1.ControllerRevision, patch []byte) history {
	h := history{number: 1}
	sorted := slices.SortedFunc(slices.Values(revisions), func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Name, b.Name))
	})
	for _, revision := range sorted {
		isCurrent, going := holds(revision, patch), revision.DeletionTimestamp != nil
		if !isCurrent {
			h.number = max(revision.Revision, revision.Revision+1) // the numbers end
		}
		switch {
		case isCurrent && h.current == nil:
			h.current = revision
		case isCurrent && going:
			h.duplicates = append(h.duplicates, revision)
		case isCurrent:
			h.duplicates, h.current = append(h.duplicates, h.current), revision
		case !going:
			h.old = append(h.old, revision)
		}
	}
	return h
}

// holds tells whether a revision has the template that a patch has. If an older
// version wrote it, some bytes may differ: until 1.33 it has a creationTimestamp,
// which is null.
func holds(revision *appsv1.ControllerRevision, patch []byte) bool {
	if bytes.Equal(revision.Data.Raw, patch) {
		return true
	}
	var set appsv1.DaemonSet
	if err := json.Unmarshal(revision.Data.Raw, &set); err != nil {
		return false
	}
	rewritten, err := templatePatch(&set.Spec.Template)
	return err == nil && bytes.Equal(rewritten, patch)
}

// superfluous returns which old revisions are to go, the oldest rather than others,
// so that no more than limit are left of all. The revision of a pod, whose hash is
// in use, never goes, even if that leaves more. The old ones are sorted by number,
// and are the caller's.
func superfluous(old []*appsv1.ControllerRevision, limit int, inUse sets.Set[string]) []*appsv1.ControllerRevision {
	unused := slices.DeleteFunc(slices.Clone(old), func(revision *appsv1.ControllerRevision) bool {
		return inUse.Has(revisionHash(revision))
	})
	return unused[:min(max(len(old)-limit, 0), len(unused))]
}

// revisionHash is what the pods of a revision have in their label. A revision
// without that label, of a cluster that is very old, goes by its name.
func revisionHash(revision *appsv1.ControllerRevision) string {
	return cmp.Or(revision.Labels[hashLabel], revision.Name)
}
