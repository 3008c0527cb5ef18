package play

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/history"
)

// object reads an object from YAML. Its name is its UID, too.
func object(t testing.TB, text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSONStrict([]byte(text))
	require.NoError(t, err)
	require.NoError(t, o.UnmarshalJSON(content))
	o.SetUID(types.UID(o.GetName()))
	return o
}

// playOf is a play that sees objects, which are recorded, and no cluster.
func playOf(objects ...*unstructured.Unstructured) (*Play, history.State) {
	state := history.State{}
	for _, o := range objects {
		resource := kindOf[map[string]string{"Pod": "pod", "ReplicaSet": "replicaset", "Deployment": "deployment",
			"ConfigMap": "configmap"}[o.GetKind()]].Resource
		if state[resource] == nil {
			state[resource] = map[types.UID]*unstructured.Unstructured{}
		}
		state[resource][o.GetUID()] = o
	}
	return &Play{
		Setting:  &Setting{Narrator: NewTeller(io.Discard, false), Patience: time.Second},
		memory:   &memory{views: map[*unstructured.Unstructured]map[string]any{}},
		recorded: mentionedIn("pods replicasets deployments configmaps"),
	}, state
}

const (
	aPod        = `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: "web:1"}, {name: b, image: "other:1"}]}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`
	aReplicaSet = `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-1, annotations: {deployment.kubernetes.io/revision: "7"}, ownerReferences: [{kind: Node, name: n}, {kind: Deployment, name: web, controller: true}]},
		spec: {replicas: 2, template: {spec: {containers: [{name: a, image: "web:2"}]}}}}`
	aDeployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, generation: 3}, spec: {replicas: 2, template: {spec: {containers: [{name: a, image: "web:2"}]}}},
		status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, availableReplicas: 2, conditions: [{type: Available, status: "True"}]}}`
	anEndedPod = `{apiVersion: v1, kind: Pod, metadata: {name: ended}, status: {phase: Failed}}`
	aGoingPod  = `{apiVersion: v1, kind: Pod, metadata: {name: going, deletionTimestamp: "2026-01-01T00:00:00Z"}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`
	aWitness   = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: witness, labels: {lab.kcm-book.io/witness: ""}}}`
)

func TestExpressionsOfOneObject(t *testing.T) {
	t.Parallel()
	token := fmt.Sprintf("%s.%s.x", base64.RawURLEncoding.EncodeToString([]byte(`{"alg": "RS256"}`)),
		base64.RawURLEncoding.EncodeToString([]byte(`{"sub": "somebody"}`)))
	cases := []struct{ about, expression string }{
		{aPod, `image(self) == "web:1"`},
		{aReplicaSet, `image(self) == "web:2"`},
		{anEndedPod, `image(self) == ""`},
		{aReplicaSet, `owner(self) == "Deployment/web"`},
		{aPod, `owner(self) == ""`},
		{aReplicaSet, "revision(self) == 7"},
		{aPod, "revision(self) == 0"},
		{aPod, `condition(self, "Ready").status == "True" && condition(self, "Ready").reason == "" && condition(self, "Ready").message == ""`},
		{aPod, `condition(self, "None").status == ""`},
		{aReplicaSet, `condition(self, "None").status == ""`},
		{aPod, "active(self) && ready(self) && !ended(self)"},
		{anEndedPod, "!active(self) && !ready(self) && ended(self)"},
		{aGoingPod, "!active(self) && !ready(self) && !ended(self)"},
		{aDeployment, "rolledOut(self)"},
		{aReplicaSet, "!rolledOut(self)"},
		{aPod, "sum([]) == 0 && sum([1, 2, 3]) == 6"},
		{aPod, `metric("a 1\nab 2.5\n", "ab") == 2.5 && metric("ab 2\n", "a") == 0.0 && metric("", "x") == 0.0`},
		{aPod, `metric("a{x=\"y\"} 3\n", "a{x=\"y\"}") == 3.0`},
		{aPod, `header("` + token + `").alg == "RS256" && claims("` + token + `").sub == "somebody"`},
		// What the API leaves out.
		{aPod, "self.metadata.labels.size() == 0 && self.metadata.annotations.size() == 0 && self.metadata.ownerReferences == [] && self.metadata.finalizers == []"},
		{aReplicaSet, "self.status.replicas == 0 && self.status.readyReplicas == 0 && self.status.availableReplicas == 0 && self.status.observedGeneration == 0 && self.status.conditions == []"},
		{aDeployment, "self.status.unavailableReplicas == 0 && self.status.replicas == 2"},
		{aDeployment, `deployments.map(d, d.metadata.name) == ["web"]`}, // and no witness of settle's
		{aPod, `pods == [self] && replicasets == []`},
		{aPod, `stdout == "said" && vars.x == 1`},
	}
	for _, c := range cases {
		t.Run(c.expression, func(t *testing.T) {
			t.Parallel()
			self := object(t, c.about)
			p, state := playOf(self, object(t, aWitness))
			p.stdout, p.vars = "said", map[string]any{"x": 1}
			e, err := compile(c.expression)
			require.NoError(t, err)
			truth, err := e.isTrue(p.activation(state, self, nil))
			require.NoError(t, err)
			require.True(t, truth)
		})
	}
}

func TestADeploymentIsRolledOutOnlyWhenNothingIsMissing(t *testing.T) {
	t.Parallel()
	for _, field := range [][]string{
		{"status", "observedGeneration"}, {"status", "replicas"}, {"status", "updatedReplicas"},
		{"status", "availableReplicas"}, {"spec", "replicas"},
	} {
		for _, value := range []int64{1, 5} {
			o := object(t, aDeployment)
			require.NoError(t, unstructured.SetNestedField(o.Object, value, field...))
			p, state := playOf()
			e, err := compile("rolledOut(self)")
			require.NoError(t, err)
			truth, err := e.isTrue(p.activation(state, o, nil))
			require.NoError(t, err)
			require.Equal(t, field[1] == "observedGeneration" && value == 5, truth, "%v %d", field, value)
		}
	}
}

func TestWhatAnExpressionCannotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	for expression, says := range map[string]string{
		"self.nothing":                   "no such key: nothing",
		"sum([1.5])":                     "not a whole number",
		`claims("a.b")`:                  "a token has three parts, and this has 2",
		`claims("a.b!.c")`:               "part 1 of a token",
		`header("YQ.b.c")`:               "part 0 of a token",
		`metric("a few\n", "a")`:         "metric: ",
		"oldSelf.metadata.name":          "oldSelf",
		"self.metadata.name":             "is p and not true or false",
		`revision({"metadata": 1}) == 1`: "no such key: annotations",
	} {
		self := object(t, aPod)
		p, state := playOf(self)
		e, err := compile(expression)
		require.NoError(t, err)
		truth, err := e.isTrue(p.activation(state, self, nil))
		require.False(t, truth)
		require.ErrorContains(t, err, says)
	}
}

func TestAViewLeavesTheObjectAsItWas(t *testing.T) {
	t.Parallel()
	o := object(t, aPod)
	before := o.DeepCopy()
	p, _ := playOf(o)
	p.view(o)["metadata"].(map[string]any)["labels"] = "changed"
	require.Equal(t, before, o)
}

func TestAnObjectIsFoundByNameOrByWhatIsTrueOfIt(t *testing.T) {
	t.Parallel()
	p, state := playOf(object(t, aPod), object(t, anEndedPod), object(t, aGoingPod), object(t, aWitness))
	for operand, wanted := range map[string]string{
		"pod/p":                  "p",
		"pod/none":               "",
		"pod[true]":              "ended", // the first by name
		"pod[ready(self)]":       "p",
		"pod[self.nothing == 1]": "",
		"deployment[true]":       "",
		`pod[self.metadata.name > "e" && self.metadata.name < "h"]`: "ended",
	} {
		o, err := parseOperand(operand)
		require.NoError(t, err)
		found := p.find(o, state)
		if wanted == "" {
			require.Nil(t, found, operand)
			continue
		}
		require.Equal(t, wanted, found.GetName(), operand)
	}
}

func TestWhatHasComeSinceTheMarkIsThereAsItWasAtFirst(t *testing.T) {
	t.Parallel()
	p, _ := playOf()
	p.mark = 2
	change := func(kind watch.EventType, name string, version uint64, phase string) history.Change {
		o := object(t, aPod)
		o.SetName(name)
		require.NoError(t, unstructured.SetNestedField(o.Object, phase, "status", "phase"))
		return history.Change{Type: kind, Resource: "pods", Object: o, Version: version}
	}
	created := p.createdIn([]history.Change{
		change(watch.Added, "before", 2, "Pending"), change(watch.Added, "after", 3, "Pending"),
		change(watch.Modified, "after", 4, "Running"), change(watch.Deleted, "after", 5, "Running"),
	})
	e, err := compile(`created.pods.map(p, p.metadata.name + p.status.phase) == ["afterPending"] && created.replicasets == []`)
	require.NoError(t, err)
	truth, err := e.isTrue(map[string]any{"created": created})
	require.NoError(t, err)
	require.True(t, truth)
}

func TestSequencesMayHaveGaps(t *testing.T) {
	t.Parallel()
	cases := []struct {
		values, wanted []string
		matches        bool
	}{
		{nil, nil, true},
		{nil, []string{"..."}, true},
		{nil, []string{"1"}, false},
		{[]string{"1"}, nil, false},
		{[]string{"1", "2"}, []string{"1", "2"}, true},
		{[]string{"1", "2"}, []string{"1"}, false},
		{[]string{"1", "2", "3"}, []string{"1", "...", "3"}, true},
		{[]string{"1", "3"}, []string{"1", "...", "3"}, true},
		{[]string{"1", "2", "3"}, []string{"...", "2", "..."}, true},
		{[]string{"1", "2", "3"}, []string{"...", "2"}, false},
		{[]string{"1", "2", "1", "2"}, []string{"...", "2"}, true},
		{[]string{"1", "2"}, []string{"...", "...", "2"}, true},
	}
	for _, c := range cases {
		require.Equal(t, c.matches, matches(c.values, c.wanted), "%q %q", c.values, c.wanted)
	}
}

func TestTheResourcesThatAScriptMentionsAreRecorded(t *testing.T) {
	t.Parallel()
	for text, wanted := range map[string][]string{
		"":                                   {},
		"await 'pods.size() == 3'":           {"pods"},
		"await pod/x true":                   {"pods"},
		"check 'pod[true]' true":             {"pods"},
		"say a pod and a deployment":         {},
		"check 'created.replicasets == []'":  {"replicasets"},
		"let x lease/kcm self.spec":          {"leases"},
		"check 'events.all(e, true)'":        {"events"},
		"check 'mypods.size() == 3'":         {},
		"check 'endpointslices.size() == 0'": {"endpointslices"},
	} {
		got := []string{}
		for _, resource := range mentionedIn(text) {
			got = append(got, resource.Resource)
		}
		require.Equal(t, wanted, got, text)
	}
	for text, wanted := range map[string]string{
		"event pod/x a b c d": "events", "settle": "deployments", "draw x": "replicasets", "say x": "serviceaccounts",
	} {
		all := map[string]bool{}
		for _, resource := range mentionedIn(text + usedBy(text)) {
			all[resource.Resource] = true
		}
		require.Contains(t, slices.Collect(maps.Keys(all)), wanted, text)
	}
}

func TestAKindMeansTheOneOfTheOlderGroup(t *testing.T) {
	t.Parallel()
	require.Equal(t, "", kindOf["event"].Group)
	require.Equal(t, "apps", kindOf["deployment"].Group)
	require.NotContains(t, kindOf, "deploymentlist")
	for _, resource := range clusterScoped {
		require.Contains(t, slices.Collect(func(yield func(string) bool) {
			for _, r := range kindOf {
				yield(r.Resource)
			}
		}), resource)
	}
}

func TestWhoseWaitWasInVainIsToldHowNodesAre(t *testing.T) {
	t.Parallel()
	node := func(text string) string {
		o := object(t, text)
		return describe(history.State{"nodes": {o.GetUID(): o}})
	}
	require.Equal(t, "Node/a Ready=", node(`{apiVersion: v1, kind: Node, metadata: {name: a}}`))
	require.Equal(t, "Node/b Ready=Unknown node.kubernetes.io/unreachable:NoSchedule", node(`{apiVersion: v1, kind: Node,
		metadata: {name: b}, spec: {taints: [{key: node.kubernetes.io/unreachable, effect: NoSchedule}]},
		status: {conditions: [{type: Ready, status: Unknown}]}}`))
}

func TestAStatusAboutAnEarlierSpecIsBehind(t *testing.T) {
	t.Parallel()
	p, _ := playOf()
	require.NoError(t, behind(p.view(object(t, aDeployment))))
	require.NoError(t, behind(p.view(object(t, aPod))))
	o := object(t, aDeployment)
	o.SetGeneration(4)
	require.EqualError(t, behind(p.view(o)), "it is of generation 4, its status of 3")
}

func TestAValueIsShownAsAReaderWouldWriteIt(t *testing.T) {
	t.Parallel()
	for expression, wanted := range map[string]string{
		`"text"`: "text", "1": "1", "1.5": "1.5", "true": "true", `{"a": 1}`: "{\n  \"a\": 1\n}", `duration("1s")`: "1s",
		`timestamp("2026-01-01T00:00:00Z")`: "2026-01-01T00:00:00Z",
	} {
		e, err := compile(expression)
		require.NoError(t, err)
		value, err := e.value(map[string]any{})
		require.NoError(t, err)
		require.Equal(t, wanted, readable(value))
	}
}
