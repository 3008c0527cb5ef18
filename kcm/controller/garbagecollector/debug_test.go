package garbagecollector

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func drawing(t *testing.T, path string, objects ...*object) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	gc := &GarbageCollector{graph: graphOf(objects...)}
	gc.DebuggingHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// The text is what the original draws of the same objects.
func TestTheGraphIsDrawnAsTheOriginalDoes(t *testing.T) {
	t.Parallel()
	quoted := thing(`ref"1`, func(o *object) { o.APIVersion, o.Kind = "apps/v1", "ReplicaSet" })
	pod := thing("pod", ownedBy(quoted), deleted(foreground))
	w := drawing(t, "/graph", pod, thing("alone"))
	assert.Equal(t, `strict digraph full {
  // Node definitions.
  "pod" [
    label="uid=pod\nnamespace=here\nConfigMap.v1/pod\nbeingDeleted,deletingDependents\n"
    group=""
    version="v1"
    kind="ConfigMap"
    namespace="here"
    name="pod"
    uid="pod"
    missing="false"
    beingDeleted="true"
    deletingDependents="true"
    virtual="false"
  ];
  "ref\"1" [
    label="uid=ref\"1\nnamespace=here\nReplicaSet.v1.apps/ref\"1\nvirtual\n"
    group="apps"
    version="v1"
    kind="ReplicaSet"
    namespace="here"
    name="ref\"1"
    uid="ref\"1"
    missing="false"
    beingDeleted="false"
    deletingDependents="false"
    virtual="true"
  ];
  // Edge definitions.
  "pod" -> "ref\"1";
}
`, w.Body.String())
	assert.Equal(t, "text/vnd.graphviz", w.Header().Get("Content-Type"))
	assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
}

func TestAnEmptyGraphIsDrawnAsTheOriginalDoes(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "strict digraph full {\n}\n", drawing(t, "/graph").Body.String())
	assert.Equal(t, http.StatusNotFound, drawing(t, "/other").Code)
}

func TestOnlyWhatHangsTogetherIsDrawn(t *testing.T) {
	t.Parallel()
	a, b := thing("a"), thing("b")
	objects := []*object{a, b, thing("a-1", ownedBy(a)), thing("b-1", ownedBy(b)), thing("a-2", ownedBy(thing("a-1")))}
	edges := func(path string) (lines []string) {
		for line := range strings.Lines(drawing(t, path, objects...).Body.String()) {
			if strings.Contains(line, "->") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	assert.Equal(t, []string{`"a-1" -> "a";`, `"a-2" -> "a-1";`}, edges("/graph?uid=a"))
	assert.Equal(t, []string{`"a-1" -> "a";`, `"a-2" -> "a-1";`, `"b-1" -> "b";`}, edges("/graph?uid=a-2&uid=b"))
	assert.Len(t, edges("/graph"), 3)
	assert.Empty(t, edges("/graph?uid=nobody"))
}
