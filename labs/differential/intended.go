package differential

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// intended is a difference from the original that is on purpose.
type intended struct {
	name   string
	reason string
	// example is the shortest run that shows it.
	example string
	// of says what may differ then.
	of *regexp.Regexp
	// when tells whether it may be the cause of what differs in a period. Without it that is any.
	when func(p period, d difference) bool
}

// period is what has happened since the last settled state, and what that is now.
type period struct {
	kcm, original       *world
	events, otherEvents map[string]int
}

// wrote tells whether one of the writes of a side begins so.
func wrote(w *world, beginning string) bool {
	return slices.ContainsFunc(w.log, func(line string) bool { return strings.HasPrefix(line, beginning) })
}

// requests is how many updates a side has asked for.
func requests(w *world) (n int) {
	for _, line := range w.log {
		if strings.HasPrefix(line, "update ") {
			n++
		}
	}
	return n
}

// refusals is how many of them were refused because they were made of something old.
func refusals(w *world) (n int) {
	for _, line := range w.log {
		if strings.HasSuffix(line, " Conflict") {
			n++
		}
	}
	return n
}

// refusedAs tells whether one of the writes of a side ended so.
func refusedAs(w *world, ending string) bool {
	return slices.ContainsFunc(w.log, func(line string) bool { return strings.HasSuffix(line, ending) })
}

// intendedDifferences are all of them. The first one that may be the cause is taken for it.
var intendedDifferences = []intended{
	{
		name: "slow-start",
		reason: "kcm has one more creation of a pod under way after each that succeeded, the original doubles their number: " +
			"how many fail after the first failure differs, and so does the number of events about them.",
		example: "solo 8; quota 2; settle",
		of:      regexp.MustCompile(`^event: \*v1.ReplicaSet .*FailedCreate|^writes: (create pods|update replicasets/status)`),
		when: func(p period, _ difference) bool {
			return refusedAs(p.kcm, " Forbidden")
		},
	},
	{
		name: "rollback-before-a-replicaset",
		reason: "A rollback that is asked for before the present template has a ReplicaSet: kcm creates it without pods first and " +
			"rolls back in the next round. The original gives it pods, then writes the Deployment as it was before its own " +
			"write, which is refused, and tells of the rollback a second time.",
		example: "create 4 1 4; rollback 0; settle",
		of:      regexp.MustCompile(``),
		when: func(p period, _ difference) bool {
			return wrote(p.kcm, "create replicasets") && wrote(p.kcm, "update deployments revision")
		},
	},
	{
		name: "revision-undone-by-a-webhook",
		reason: "A webhook takes the revision out of a Deployment's status: kcm goes on with the API server's answer, the " +
			"original with what it had wanted to write.",
		example: "webhook 4; create 7 1 3; settle",
		of:      regexp.MustCompile(`^writes: update deployments/status|^Deployment web .metadata.annotations`),
		when:    func(p period, _ difference) bool { return p.kcm.webhook == dropsRevision },
	},
	{
		name: "size-noted-in-recreate",
		reason: "A Deployment that is scaled and changed to Recreate in the middle of a rollout: kcm notes its size on all " +
			"ReplicaSets and goes on. The original does not, and never goes on.",
		example: "create 2 0 1; settle; image 3; settle; scale 5; recreate; settle",
		of:      regexp.MustCompile(``),
		when: func(p period, _ difference) bool {
			d := p.original.web()
			return d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && sizesOutOfDate(p.original)
		},
	},
	{
		name: "size-noted-where-it-fits",
		reason: "A scaled Deployment whose only ReplicaSet has the right size already: kcm notes the Deployment's size on it. The " +
			"original does not, takes the Deployment for just scaled from then on, and never rolls out again (#138840).",
		example: "create 0 5 0; settle; scale 6; resize-set 0 6; settle",
		of:      regexp.MustCompile(``),
		when:    func(p period, _ difference) bool { return sizesOutOfDate(p.original) && !sizesOutOfDate(p.kcm) },
	},
	{
		name: "recreate-waits-for-the-last-pod",
		reason: "A Recreate Deployment without a ReplicaSet that is to have pods is scaled before its rollout: kcm gives pods to the " +
			"latest ReplicaSet when all pods have ended, the original at once.",
		example: "create 1 2 2; recreate; settle; scale 0; start-all 0; settle; pause 1; image 2; scale 2; settle",
		of:      regexp.MustCompile(``),
		when: func(p period, _ difference) bool {
			d := p.kcm.web()
			return d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && len(p.kcm.active()) == 0 &&
				slices.ContainsFunc(p.kcm.pods.List(), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		},
	},
	{
		name: "there-and-back",
		reason: "A ReplicaSet shrinks and grows again: whether its own loop comes in between decides if a pod goes for it and " +
			"another comes. The rounds of kcm follow at once; the original fails in between and tries again a little later.",
		example: "create 7 3 1; settle; start-all 1; image 1; settle; scale 3; settle",
		of:      regexp.MustCompile(`^Pod|^writes: |^event: `),
		when:    func(p period, _ difference) bool { return goesBothWays(p.otherEvents) || goesBothWays(p.events) },
	},
	{
		name: "surge-is-a-limit",
		reason: "A paused Deployment with room for more pods than it wants: kcm leaves the sizes as they are, and what is noted of them. The original fills " +
			"the surge, most of it with old pods (#115735).",
		example: "create 5 5 2; settle; image 2; settle; pause 1; settle",
		of:      regexp.MustCompile(``),
		when: func(p period, _ difference) bool {
			d := p.original.web()
			return d != nil && d.Spec.Paused && len(p.original.active()) > 1 && total(p.original) >= total(p.kcm)
		},
	},
	{
		name: "shrunk-in-one-write",
		reason: "An old ReplicaSet that loses pods that are not available and pods that are: kcm takes both in one write with " +
			"one event, the original in two.",
		example: "create 7 5 3; settle; start-all 2; kill-pod 6; settle; image 4; settle",
		of:      regexp.MustCompile(`^event: .* Scaled down|^writes: update`),
		when: func(p period, _ difference) bool {
			return maps.Equal(scaledBy(p.events), scaledBy(p.otherEvents)) && count(p.events) < count(p.otherEvents)
		},
	},
	{
		name: "more-pods-than-asked-for",
		reason: "An old ReplicaSet has more available pods than it is to have, because their deletion is late or refused: kcm " +
			"counts as many as it is to have. The original asks for a negative number to be cleaned up, fails, and does not go " +
			"on before they are gone.",
		example: "webhook 2; create 8 5 0; image 3; settle; delete 2; create 3 1 2; settle; start-all 1; settle",
		of:      regexp.MustCompile(``),
		when: func(p period, _ difference) bool {
			return slices.ContainsFunc(p.original.active(), func(rs *appsv1.ReplicaSet) bool { return rs.Status.AvailableReplicas > *rs.Spec.Replicas })
		},
	},
	{
		name: "other-steps-to-the-same-size",
		reason: "The same sizes in the end by other steps, because the two do not do the same in one round, and what comes in " +
			"between is another state.",
		example: "create 5 3 5; settle; image 4; rollback 1; settle; scale 8; resize-set 0 7; settle",
		of:      regexp.MustCompile(`^event: .* ScalingReplicaSet`),
		when:    func(p period, _ difference) bool { return maps.Equal(scaledBy(p.events), scaledBy(p.otherEvents)) },
	},
	{
		name: "name-taken-by-what-was-let-go",
		reason: "The new ReplicaSet was just let go, because its labels have changed, and the cache still shows it as the " +
			"Deployment's: kcm waits for the cache. The original goes on with it and writes a status in between.",
		example: "create 6 2 2; settle; free-set 0; wait 7; deadline 7; settle",
		of:      regexp.MustCompile(`^Deployment web .status.conditions.*Time|^writes: update deployments/status`),
		when: func(p period, _ difference) bool {
			return refusedAs(p.original, " AlreadyExists") && refusedAs(p.kcm, " AlreadyExists")
		},
	},
	{
		name: "goes-on-with-the-answer",
		reason: "A sync that writes the same object twice: kcm makes the second write of the API server's answer to the first. " +
			"The original makes it of what it had read, is refused, and starts again, by when there may be less to tell, or more that counts as progress. What it tells it then tells twice.",
		example: "create 6 3 5; settle; scale 1; pause 1; settle",
		of:      regexp.MustCompile(`^writes: update (deployments|replicasets)|^Deployment web .status.conditions.Progressing|^event: .* DeploymentRollback`),
		when: func(p period, _ difference) bool {
			return refusals(p.original) > 0 && requests(p.kcm) <= requests(p.original)+refusals(p.original)
		},
	},
	{
		name: "hit-elsewhere",
		reason: "A write that is lost is not the same one on both sides, because the original makes others that are refused " +
			"anyway: what the conditions say about the way may differ, and when something is tried again.",
		example: "create 1 0 1; settle; fault 0 1; settle; succeed 0; settle",
		of:      regexp.MustCompile(`^Pod|^(Deployment|ReplicaSet) \S+ \.status`),
		when:    func(p period, _ difference) bool { return p.kcm.hit || p.original.hit },
	},
	{
		name:    "failure-told-once",
		reason:  "A ReplicaSet that cannot be created: kcm writes it into the status once, the original at each try.",
		example: "webhook 5; create 6 3 0; settle",
		of:      regexp.MustCompile(`^writes: update deployments/status|^event: .* ReplicaSetCreateError`),
		when:    func(p period, _ difference) bool { return p.kcm.webhook == refusesSets },
	},
	{
		name: "fewer-writes",
		reason: "The same end with fewer writes. The original writes a status in between, for example while a ReplicaSet has " +
			"more pods than it is to have, of which it says that it cannot be scaled down.",
		example: "create 3 3 1; settle; start-all 2; settle; scale 1; image 1; settle",
		of:      regexp.MustCompile(`^writes: update`),
		when:    func(_ period, d difference) bool { return d.more() < 0 },
	},
	{
		name: "up-to-two-writes-more",
		reason: "A round of the original is several of kcm's, and each of them may write a status, or the size of the Deployment on " +
			"a ReplicaSet. What is written once too often in truth is not told from that by up to two writes.",
		example: "create 4 2 3; settle; image 2; scale 1; settle; scale 2; resize-set 0 8; settle",
		of:      regexp.MustCompile(`^writes: update`),
		when:    func(_ period, d difference) bool { return d.more() <= 2 },
	},
	{
		name: "neighbours-are-those-of-the-owner",
		reason: "Which pod of a ReplicaSet goes first depends on how many of its neighbours are on the same node. For kcm these " +
			"are the pods of the same owner, for the original all whose labels match, also orphans and another's.",
		example: "create 7 4 0; settle; stray-pod 0; start-all 1; settle",
		of:      regexp.MustCompile(`^Pod .*deletionTimestamp|^event: .* SuccessfulDelete`),
	},
}

// active returns the ReplicaSets that are to have pods.
func (w *world) active() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(w.replicaSets.List(), func(rs *appsv1.ReplicaSet) bool { return *rs.Spec.Replicas == 0 })
}

// total is how many pods all of them are to have.
func total(w *world) (n int32) {
	for _, rs := range w.active() {
		n += *rs.Spec.Replicas
	}
	return n
}

// sizesOutOfDate tells whether a ReplicaSet has another size of the deployment noted on it.
func sizesOutOfDate(w *world) bool {
	d := w.web()
	return d != nil && slices.ContainsFunc(w.active(), func(rs *appsv1.ReplicaSet) bool {
		return metav1.GetControllerOf(rs) != nil && rs.Annotations["deployment.kubernetes.io/desired-replicas"] != fmt.Sprint(*d.Spec.Replicas)
	})
}

var scaling = regexp.MustCompile(`Scaled \w+ replica set (\S+) from (\d+) to (\d+)`)

// scaledBy returns by how much each ReplicaSet was scaled, according to events.
func scaledBy(events map[string]int) map[string]int {
	by := map[string]int{}
	for event, n := range events {
		if words := scaling.FindStringSubmatch(event); words != nil {
			from, _ := strconv.Atoi(words[2])
			to, _ := strconv.Atoi(words[3])
			by[words[1]] += n * (to - from)
		}
	}
	return by
}

// goesBothWays tells whether events tell of a ReplicaSet that was scaled up and down.
func goesBothWays(events map[string]int) bool {
	up, down := map[string]bool{}, map[string]bool{}
	for event := range events {
		if words := scaling.FindStringSubmatch(event); words != nil {
			if strings.Contains(event, "Scaled up") {
				up[words[1]] = true
			} else {
				down[words[1]] = true
			}
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(up)), func(name string) bool { return down[name] })
}

func count(events map[string]int) (n int) {
	for _, count := range events {
		n += count
	}
	return n
}

// more returns how much more often kcm did what both count.
func (d difference) more() int {
	kcm, _ := strconv.Atoi(d.kcm)
	original, _ := strconv.Atoi(d.original)
	return kcm - original
}

// explain returns the intended difference that this one is, or nil.
func explain(d difference, p period) *intended {
	for i := range intendedDifferences {
		if known := &intendedDifferences[i]; known.of.MatchString(d.of) && (known.when == nil || known.when(p, d)) {
			return known
		}
	}
	return nil
}
