package play

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// functionsOfSelf are functions of an object that expressions can be. Each may use those before it.
var functionsOfSelf = []struct {
	name string
	to   *cel.Type
	is   string
}{
	{"image", cel.StringType, `self.?spec.?template.or(optional.of(self)).?spec.?containers[?0].?image.orValue("")`},
	{"owner", cel.StringType, `self.metadata.ownerReferences.filter(o, o.?controller.orValue(false))
		.map(o, o.kind + "/" + o.name)[?0].orValue("")`},
	{"revision", cel.IntType, `int(self.metadata.annotations[?"deployment.kubernetes.io/revision"].orValue("0"))`},
	{"ended", cel.BoolType, `self.?status.?phase.orValue("") in ["Succeeded", "Failed"]`},
	// It counts for its owner: it has not ended for good, and nobody has asked for its end.
	{"active", cel.BoolType, `!has(self.metadata.deletionTimestamp) && !ended(self)`},
	{"ready", cel.BoolType, `!has(self.metadata.deletionTimestamp) && condition(self, "Ready").status == "True"`},
	// This is what kubectl rollout status asks, and that all pods of the new version are available.
	{"rolledOut", cel.BoolType, `self.status.observedGeneration >= self.metadata.generation &&
		[self.status.updatedReplicas, self.status.replicas, self.status.availableReplicas]
			.all(n, n == self.spec.replicas)`},
}

// withFunctionsOfSelf adds them to a language.
func withFunctionsOfSelf(env *cel.Env) (*cel.Env, error) {
	for _, f := range functionsOfSelf {
		e, err := compileIn(env, f.is)
		if err != nil {
			return nil, err
		}
		env, err = env.Extend(unary(f.name, cel.DynType, f.to, func(self ref.Val) ref.Val {
			value, err := e.value(map[string]any{"self": self})
			if err != nil {
				return types.WrapErr(err)
			}
			return value
		}))
		if err != nil {
			return nil, err
		}
	}
	return env, nil
}

// condition is that of a kind, whose fields are there also if it is not.
func condition(object, kind ref.Val) ref.Val {
	o, _ := object.Value().(map[string]any)
	found := map[string]any{"type": kind.Value(), "status": ""}
	conditions, _, _ := unstructured.NestedSlice(o, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == kind.Value() {
			found = c
		}
	}
	orDefault(found, "", "reason", "message")
	return types.DefaultTypeAdapter.NativeToValue(found)
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
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(string(name.(types.String))) + ` (.+)$`)
	found := line.FindStringSubmatch(string(text.(types.String)))
	if found == nil {
		return types.Double(0)
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return types.NewErr("metric: %v", err)
	}
	return types.Double(value)
}

func jsonPart(token ref.Val, number int) ref.Val {
	parts := strings.Split(string(token.(types.String)), ".")
	if len(parts) != 3 {
		return types.NewErr("a token has three parts, and this has %d", len(parts))
	}
	decoded, err := base64.RawURLEncoding.DecodeString(parts[number])
	var part map[string]any
	if err == nil {
		err = json.Unmarshal(decoded, &part)
	}
	if err != nil {
		return types.NewErr("part %d of a token: %v", number, err)
	}
	return types.DefaultTypeAdapter.NativeToValue(part)
}
