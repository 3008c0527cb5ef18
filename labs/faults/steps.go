package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Step is one thing that happens in a run of chaos: something that a user does,
// or a fault.
type Step struct {
	// Number is its place among those that were drawn, from 1.
	Number int
	// Pause is how long nothing is done before it.
	Pause time.Duration
	// Act is the name of one of the [Acts].
	Act string
	// App is whom it concerns, see [App], or empty.
	App string

	// What it is done with, as far as the act needs it.
	Replicas int32
	Image    string
	Strategy string
	Policy   metav1.DeletionPropagation
	Which    int // of several pods or ReplicaSets
	Fault    Fault
}

func (s Step) String() string {
	told := strings.TrimSpace(fmt.Sprintf("%d: %s %s", s.Number, s.Act, s.App))
	if tell := actNamed(s.Act).tell; tell != nil {
		told += " " + tell(s)
	}
	return told
}

// Act is a kind of step.
type Act struct {
	Name, Says string
	// often is how often it is drawn, compared with others.
	often int
	// can tells whether it can be done to an app. If it is nil, the act concerns
	// none.
	can func(a *App) bool
	// draw draws what it is done with.
	draw func(r *rand.Rand, a *App, s *Step)
	tell func(s Step) string
	// then is what it changes in a model.
	then func(m *Model, a *App, s Step)
	// play does it.
	play func(s *stage, ctx context.Context, step Step) error
}

// Acts are all kinds of steps.
var Acts = []Act{
	{Name: "create", Says: "makes a Deployment, ReplicaSet or ReplicationController", often: 16,
		can: func(a *App) bool { return !a.There }, draw: drawCreation, tell: tellCreation, then: create, play: (*stage).create},
	{Name: "scale", Says: "asks for another number of pods", often: 12,
		can: isThere, draw: drawReplicas, tell: tellReplicas,
		then: func(_ *Model, a *App, s Step) { a.Replicas = s.Replicas },
		play: patching(func(s Step) any { return fields{"replicas": s.Replicas} })},
	{Name: "image", Says: "rolls out another image, one that never gets ready among them", often: 16,
		can: isDeployment, draw: drawImage, tell: tellImage, then: setImage, play: patching(imagePatch)},
	{Name: "undo", Says: "rolls back to the image before", often: 6,
		can: func(a *App) bool { return isDeployment(a) && a.Former != "" }, draw: func(_ *rand.Rand, a *App, s *Step) { s.Image = a.Former },
		tell: tellImage, then: setImage, play: patching(imagePatch)},
	{Name: "pause", Says: "pauses a Deployment", often: 3,
		can:  func(a *App) bool { return isDeployment(a) && !a.Paused },
		then: func(_ *Model, a *App, _ Step) { a.Paused = true },
		play: patching(func(Step) any { return fields{"paused": true} })},
	{Name: "resume", Says: "resumes a Deployment", often: 5,
		can:  func(a *App) bool { return isDeployment(a) && a.Paused },
		then: func(_ *Model, a *App, _ Step) { a.Paused = false },
		play: patching(func(Step) any { return fields{"paused": false} })},
	{Name: "strategy", Says: "changes how a Deployment rolls out", often: 5,
		can: isDeployment, draw: drawStrategy, tell: func(s Step) string { return s.Strategy },
		then: func(_ *Model, a *App, s Step) { a.Strategy = s.Strategy },
		play: patching(func(s Step) any { return fields{"strategy": strategy(s.Strategy)} })},
	{Name: "delete", Says: "deletes in the background, in the foreground or without what is owned", often: 12,
		can: isThere, draw: drawPolicy, tell: func(s Step) string { return string(s.Policy) }, then: remove, play: (*stage).remove},
	{Name: "await", Says: "waits until an app is as it is to be", often: 4, can: isThere, play: (*stage).awaitApp},
	{Name: "delete-pod", Says: "deletes a pod", often: 8, can: isThere, draw: drawWhich, tell: tellWhich, play: (*stage).deletePod},
	{Name: "take-pod", Says: "takes a pod out by its label", often: 5, can: isThere, draw: drawWhich, tell: tellWhich,
		then: func(_ *Model, a *App, _ Step) { a.PodsTaken++ }, play: relabelling("pods", true)},
	{Name: "return-pod", Says: "labels a pod as before that was taken out", often: 5, draw: drawWhich, tell: tellWhich,
		can: func(a *App) bool { return a.There && a.PodsTaken > 0 }, play: relabelling("pods", false)},
	{Name: "add-pod", Says: "makes a pod of nobody that a ReplicaSet or ReplicationController selects", often: 3,
		can:  func(a *App) bool { return a.There && !isDeployment(a) },
		then: func(_ *Model, a *App, _ Step) { a.PodsAdded++ }, play: (*stage).addPod},
	{Name: "take-set", Says: "takes a ReplicaSet from a Deployment by its label", often: 2, can: isDeployment, draw: drawWhich, tell: tellWhich,
		then: func(_ *Model, a *App, _ Step) { a.SetsTaken++ }, play: relabelling("replicasets", true)},
	{Name: "return-set", Says: "labels a ReplicaSet as before that was taken out", often: 4, draw: drawWhich, tell: tellWhich,
		can: func(a *App) bool { return isDeployment(a) && a.SetsTaken > 0 }, play: relabelling("replicasets", false)},
	{Name: "account", Says: "deletes the namespace's ServiceAccount default", often: 2, play: deleting("serviceaccounts", "default")},
	{Name: "root-ca", Says: "deletes the namespace's ConfigMap with the root CA", often: 2, play: deleting("configmaps", "kube-root-ca.crt")},
	{Name: "namespace", Says: "deletes the namespace, and makes it anew when it is gone", often: 1, play: (*stage).renewNamespace,
		then: func(m *Model, _ *App, _ Step) { *m = *NewModel() }},
	{Name: "fault", Says: "has a fault happen at a write or event, counted from then on", often: 35,
		draw: func(r *rand.Rand, _ *App, s *Step) { s.Fault = drawFault(r) }, tell: func(s Step) string { return s.Fault.String() },
		play: func(s *stage, _ context.Context, step Step) error { s.traffic.arm(step.Fault); return nil }},
}

// actNamed returns the one of a name. There has to be one.
func actNamed(name string) Act {
	return Acts[slices.IndexFunc(Acts, func(act Act) bool { return act.Name == name })]
}

// fields are those of an object's spec.
type fields = map[string]any

const (
	stepCount = 80
	// firstCreated is how many steps at the beginning make something.
	firstCreated = 8
	mostReplicas = 5
	neverReady   = "web:never"
)

var (
	images     = []string{"web:1", "web:2", "web:3", "web:4", "web:1", "web:2", neverReady}
	strategies = []string{"1/0", "0/1", "25%/25%", "2/1", "Recreate"} // surge/unavailable
	policies   = []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
)

// Draw draws steps. The same seed has the same steps.
func Draw(seed uint64) (steps []Step) {
	r := rand.New(rand.NewPCG(seed, 0))
	model := NewModel()
	special := drawSpecial(r)
	for len(steps) < stepCount {
		s := drawStep(r, model, len(steps), special)
		if s.Policy == metav1.DeletePropagationOrphan && r.IntN(2) == 0 { // then it is known what has to be left
			rest := Step{Number: len(steps) + 1, Act: "await", App: s.App}
			model.Then(rest)
			steps = append(steps, rest)
			s.Number++
		}
		model.Then(s)
		steps = append(steps, s)
	}
	return steps[:stepCount]
}

// special is a fault that comes once at most.
type special struct {
	Fault
	at int // the number of steps before it
}

// drawSpecial draws a fault that does not go with others: while a leader is frozen
// the API server has to be there, and the Lease. Most runs have none.
func drawSpecial(r *rand.Rand) special {
	name := []string{"freeze", "apiserver", "etcd", "", "", "", "", "", "", ""}[r.IntN(10)]
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	at := stepCount/3 + r.IntN(stepCount/3)
	if i >= 0 && Kinds[i].Alone {
		at += stepCount / 4 // what comes after it is not held against the invariants
	}
	if i < 0 {
		return special{at: -1}
	}
	return special{Fault{Kind: Kinds[i], At: 1 + r.IntN(5)}, at}
}

func drawStep(r *rand.Rand, m *Model, before int, special special) Step {
	s := Step{Number: before + 1, Pause: time.Duration(r.ExpFloat64() * float64(150*time.Millisecond)).Round(time.Millisecond)}
	if before == special.at {
		s.Act, s.Fault = "fault", special.Fault
		return s
	}
	for {
		act, a := drawAct(r), (*App)(nil)
		if before < firstCreated && act.Name != "create" || act.Name == "namespace" && special.Name == "freeze" { // the Lease would go, too
			continue
		}
		if act.can != nil {
			able := slices.DeleteFunc(slices.Clone(m.Apps), func(a *App) bool { return !act.can(a) })
			if len(able) == 0 {
				continue
			}
			a = able[r.IntN(len(able))]
			s.App = a.Name
		}
		s.Act = act.Name
		if act.draw != nil {
			act.draw(r, a, &s)
		}
		return s
	}
}

func drawAct(r *rand.Rand) Act {
	sum := 0
	for _, act := range Acts {
		sum += act.often
	}
	at := r.IntN(sum)
	i := slices.IndexFunc(Acts, func(act Act) bool {
		at -= act.often
		return at < 0
	})
	return Acts[i]
}

// disturbedResources are those whose watches and lists faults disturb.
var disturbedResources = append(theThree[:3:3], "replicationcontrollers", metadataPrefix+"replicasets", metadataPrefix+"pods")

// drawFault draws one that goes with all others.
func drawFault(r *rand.Rand) Fault {
	ordinary := slices.DeleteFunc(slices.Clone(Kinds), func(k Kind) bool { return k.Alone || k.Name == "freeze" })
	f := Fault{Kind: ordinary[r.IntN(len(ordinary))], At: 1 + r.IntN(4)}
	if f.Watch {
		f.At = 1 + r.IntN(2) // of one resource there are fewer events than there are writes
	}
	if f.Resource {
		f.Of = disturbedResources[r.IntN(len(disturbedResources))]
	}
	return f
}

func drawCreation(r *rand.Rand, a *App, s *Step) {
	drawReplicas(r, a, s)
	s.Image = images[r.IntN(4)]
	if a.kind() == "deployments" {
		drawStrategy(r, a, s)
	}
}

func drawReplicas(r *rand.Rand, _ *App, s *Step) { s.Replicas = r.Int32N(mostReplicas + 1) }
func drawImage(r *rand.Rand, _ *App, s *Step)    { s.Image = images[r.IntN(len(images))] }
func drawStrategy(r *rand.Rand, _ *App, s *Step) { s.Strategy = strategies[r.IntN(len(strategies))] }
func drawPolicy(r *rand.Rand, _ *App, s *Step)   { s.Policy = policies[r.IntN(len(policies))] }
func drawWhich(r *rand.Rand, _ *App, s *Step)    { s.Which = r.IntN(mostReplicas) }

func tellReplicas(s Step) string { return fmt.Sprintf("to %d", s.Replicas) }
func tellImage(s Step) string    { return s.Image }
func tellWhich(s Step) string    { return fmt.Sprintf("(%d)", s.Which) }
func tellCreation(s Step) string {
	return strings.TrimSpace(fmt.Sprintf("of %d %s %s", s.Replicas, s.Image, s.Strategy))
}

// Shorten leaves out steps as long as what is left still fails, halves first and
// single ones in the end. What is alike is left out together at first. The steps
// that it tries are in the order of their numbers.
func Shorten[S any](steps []S, alike func(a, b S) int, number func(S) int, fails func([]S) bool) []S {
	inOrder := func(steps []S) []S {
		return slices.SortedFunc(slices.Values(steps), func(a, b S) int { return cmp.Compare(number(a), number(b)) })
	}
	kept := slices.SortedStableFunc(slices.Values(steps), alike)
	for size := (len(kept) + 1) / 2; size >= 1; size /= 2 {
		for start := 0; start < len(kept); {
			rest := slices.Concat(kept[:start], kept[min(start+size, len(kept)):])
			if len(rest) > 0 && fails(inOrder(rest)) {
				kept = rest
			} else {
				start += size
			}
		}
	}
	return inOrder(kept)
}
