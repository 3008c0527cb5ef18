package play

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// native returns a CEL value as unstructured Go.
func native(value ref.Val) map[string]any {
	object, _ := value.Value().(map[string]any)
	return object
}

func image(object ref.Val) ref.Val { return types.String(firstImage(native(object))) }

// firstImage is that of the first container, of a pod or of a template.
func firstImage(object map[string]any) string {
	path := []string{"spec", "containers"}
	if _, ok, _ := unstructured.NestedMap(object, "spec", "template"); ok {
		path = []string{"spec", "template", "spec", "containers"}
	}
	containers, _, _ := unstructured.NestedSlice(object, path...)
	if len(containers) == 0 {
		return ""
	}
	name, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
	return name
}

func owner(object ref.Val) ref.Val {
	for _, ref := range (&unstructured.Unstructured{Object: native(object)}).GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return types.String(ref.Kind + "/" + ref.Name)
		}
	}
	return types.String("")
}

func revision(object ref.Val) ref.Val {
	text, _, _ := unstructured.NestedString(native(object), "metadata", "annotations", "deployment.kubernetes.io/revision")
	if text == "" {
		return types.Int(0)
	}
	return types.String(text).ConvertToType(types.IntType)
}

func ready(pod ref.Val) ref.Val {
	return types.Bool(!beingDeleted(pod) && conditionOf(native(pod), "Ready")["status"] == "True")
}

// active tells whether a pod counts for its owner: it has not ended for good, and
// nobody has asked for its end.
func active(pod ref.Val) ref.Val {
	return types.Bool(!beingDeleted(pod) && ended(pod) == types.False)
}

func beingDeleted(object ref.Val) bool {
	_, deleted, _ := unstructured.NestedString(native(object), "metadata", "deletionTimestamp")
	return deleted
}

// rolledOut asks what kubectl rollout status asks, and that all pods of the new
// version are available.
func rolledOut(deployment ref.Val) ref.Val {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(native(deployment), path...)
		return n
	}
	wanted := number("spec", "replicas")
	return types.Bool(number("status", "observedGeneration") >= number("metadata", "generation") &&
		number("status", "updatedReplicas") == wanted && number("status", "replicas") == wanted && number("status", "availableReplicas") == wanted)
}

func ended(pod ref.Val) ref.Val {
	phase, _, _ := unstructured.NestedString(native(pod), "status", "phase")
	return types.Bool(phase == "Succeeded" || phase == "Failed")
}

func condition(object, kind ref.Val) ref.Val {
	return types.DefaultTypeAdapter.NativeToValue(conditionOf(native(object), string(kind.(types.String))))
}

func conditionOf(object map[string]any, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == kind {
			orDefault(c, map[string]any{"reason": "", "message": ""})
			return c
		}
	}
	return map[string]any{"type": kind, "status": "", "reason": "", "message": ""}
}

func sum(list ref.Val) ref.Val {
	total := types.Int(0)
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		n, ok := it.Next().(types.Int)
		if !ok {
			return types.NewErr("sum: not a whole number")
		}
		total += n
	}
	return total
}

// metric returns a figure from what /metrics says, or 0 where it is not there.
func metric(text, name ref.Val) ref.Val {
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(string(name.(types.String))) + ` (.+)$`).FindStringSubmatch(string(text.(types.String)))
	if found == nil {
		return types.Double(0)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return types.NewErr("metric: %v", err)
	}
	return types.Double(value)
}

// jsonPart returns a part of a JSON Web Token.
func jsonPart(token ref.Val, number int) ref.Val {
	parts := strings.Split(string(token.(types.String)), ".")
	if len(parts) != 3 {
		return types.NewErr("a token has three parts, and this has %d", len(parts))
	}
	decoded, err := base64.RawURLEncoding.DecodeString(parts[number])
	if err != nil {
		return types.NewErr("part %d of a token: %v", number, err)
	}
	var part map[string]any
	if err := json.Unmarshal(decoded, &part); err != nil {
		return types.NewErr("part %d of a token: %v", number, err)
	}
	return types.DefaultTypeAdapter.NativeToValue(part)
}
