package differential

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/pkg/controller"
	deploymentutil "k8s.io/kubernetes/pkg/controller/deployment/util"
	"k8s.io/utils/ptr"
)

// intended is a difference from the original that is on purpose.
type intended struct {
	name string
	// entry is how the line about it in chapters/where-kcm-differs.md begins.
	entry string
	// example is the shortest run that shows it.
	example string
	// met tells whether a loop that is about to sync meets the circumstances in which the two differ. Nothing is explained by
	// a difference whose circumstances nobody has met since the last settled state.
	met func(s sight) bool
	// of says what may differ then.
	of *regexp.Regexp
}

var (
	anything   = regexp.MustCompile(``)
	conditions = regexp.MustCompile(`^Deployment web .status.conditions`)
	status     = regexp.MustCompile(`^(Deployment web|ReplicaSet \S+) .status`)
	// podsOrStatus are pods that come and go, and what is told and written of that.
	podsOrStatus = regexp.MustCompile(`^((Deployment web|ReplicaSet \S+) .status|Pod|writes: (create|delete) pods|writes: update .*/status|event: .* (pods created|Successful|Failed))`)
)

// intendedDifferences are all of them. The first one that may be the cause is taken for it.
var intendedDifferences = []intended{
	{
		name:    "size-noted-where-it-fits",
		entry:   "takes a Deployment for just scaled for ever",
		example: "create 0 5 0; settle; scale 6; resize-set 0 6; settle",
		met: func(s sight) bool {
			active := s.active()
			return s.scales() && s.wasScaled() && len(active) == 1 && *active[0].Spec.Replicas == s.wanted()
		},
		of: anything,
	},
	{
		name:    "size-noted-in-recreate",
		entry:   "takes a Deployment for just scaled for ever",
		example: "create 2 0 1; settle; image 3; settle; scale 5; recreate; settle",
		met: func(s sight) bool {
			return s.scales() && s.wasScaled() && len(s.active()) > 1 && !s.saturated() && !s.rolling()
		},
		of: anything,
	},
	{
		name:    "surge-is-a-limit",
		entry:   "fills a surge that is widened during a pause",
		example: "create 5 5 2; settle; image 2; settle; pause 1; settle",
		met: func(s sight) bool {
			return s.scalesInProportion() && !s.wasScaled() && s.wanted() <= total(s.active()) && total(s.active()) <= s.atMost()
		},
		of: anything,
	},
	{
		name:    "no-share-against-the-direction",
		entry:   "may take from all but the largest version",
		example: "create 4 1 3; settle; image 2; settle; resize-set 1 7; scale 8; settle",
		met: func(s sight) bool {
			return s.scalesInProportion() && slices.ContainsFunc(s.active(), func(rs *appsv1.ReplicaSet) bool {
				return s.missing()*deploymentutil.GetReplicaSetProportion(klog.Logger{}, rs, *s.d, s.missing(), 0) < 0
			})
		},
		of: anything,
	},
	{
		name:    "more-available-than-wanted",
		entry:   "counts pods as available that a ReplicaSet is about to delete",
		example: "webhook 2; create 8 5 0; image 3; settle; delete 2; create 3 1 2; settle; start-all 1; settle",
		met: func(s sight) bool {
			return s.rollsOut() && s.rolling() && s.shrinksOld() &&
				slices.ContainsFunc(append(s.active(), s.newSet), func(rs *appsv1.ReplicaSet) bool {
					return rs.Status.AvailableReplicas > *rs.Spec.Replicas
				})
		},
		of: anything,
	},
	{
		name:    "recreate-waits-for-the-last-pod",
		entry:   "starts pods of the latest version while Recreate is paused",
		example: "create 1 2 2; recreate; settle; scale 0; start-all 0; settle; pause 1; image 2; scale 2; settle",
		met: func(s sight) bool {
			return s.d != nil && s.d.Spec.Paused && !s.rolling() && len(s.sets) > 0 && len(s.active()) == 0 && s.oldPodsRemain()
		},
		of: anything,
	},
	{
		name:    "rollback-before-a-replicaset",
		entry:   "gives pods to a ReplicaSet that it creates for a rollback",
		example: "create 2 2 1; settle; rollback 0; image 4; settle",
		met:     func(s sight) bool { return s.rollsBack() && s.newSet == nil },
		of:      anything,
	},
	{
		name:    "rollback-told-when-it-is-done",
		entry:   "says that there is nothing to roll back to before",
		example: "create 7 5 2; settle; rollback 0; show-deployment; delete 2; sync-deployment; settle",
		met: func(s sight) bool {
			now := s.w.web()
			return s.rollsBack() && (now == nil || now.ResourceVersion != s.d.ResourceVersion)
		},
		of: regexp.MustCompile(`^event: .* DeploymentRollback`),
	},
	{
		name:    "revision-undone-by-a-webhook",
		entry:   "goes on with what it wanted to write",
		example: "create 1 1 5; webhook 4; settle; rollback 1; settle",
		met: func(s sight) bool {
			return s.d != nil && (s.w.webhook == dropsRevision || s.newSet != nil && s.d.Annotations[deploymentutil.RevisionAnnotation] == "")
		},
		of: regexp.MustCompile(`^writes: update deployments/status|^Deployment web .metadata.annotations`),
	},
	{
		name:    "status-refused-in-between",
		entry:   "goes on with what it wanted to write",
		example: "create 2 1 3; settle; image 4; settle; settle; image 0; recreate; start 8 0; settle",
		met:     func(s sight) bool { return slices.Contains(s.w.log, "update deployments/status web Conflict") },
		of:      conditions,
	},
	{
		name:    "size-refused-in-between",
		entry:   "goes on with what it wanted to write",
		example: "quota 2; create 8 4 2; settle; settle; quota 8; scale 5; annotate 0; settle",
		met:     func(s sight) bool { return slices.ContainsFunc(s.all, s.waitsForSize) },
		of:      podsOrStatus,
	},
	{
		name:    "surge-noted-before-it-was-refused",
		entry:   "goes on with what it wanted to write",
		example: "create 7 5 4; settle; annotate 2; scale 5; show-deployment; rolling 2 4; sync-deployment; settle",
		met:     func(s sight) bool { return s.scales() && slices.ContainsFunc(s.active(), s.wasRefused) },
		of:      regexp.MustCompile(`^ReplicaSet \S+ .metadata.annotations.deployment.kubernetes.io/max-replicas`),
	},
	{
		name:    "status-refused-before-a-creation-is",
		entry:   "goes on with what it wanted to write",
		example: "create 7 0 3; settle; pause 1; image 4; settle; pause 0; webhook 5; scale 8; settle",
		met: func(s sight) bool {
			return s.works() && s.newSet == nil && (s.w.webhook == refusesSets || s.w.webhook == namespaceIsEnding) &&
				slices.Contains(s.w.log, "update deployments/status web Conflict")
		},
		of: regexp.MustCompile(`^Deployment web .status`),
	},
	{
		name:    "recreate-waits-for-the-status",
		entry:   "begins the new version with Recreate before the status of an old ReplicaSet",
		example: "create 4 3 5; recreate; settle; image 4; start-all 1; settle; end-all; restart 0; sync-deployment; wait 3; settle",
		met:     func(s sight) bool { return s.works() && !s.d.Spec.Paused && !s.rolling() && s.endsUntold() },
		of:      anything,
	},
	{
		name:    "other-min-ready-seconds",
		entry:   "goes by a status that was counted by other `minReadySeconds`",
		example: "create 3 2 3; settle; pause 1; settle; min-ready 10; start-all 1; settle",
		met: func(s sight) bool {
			return s.newSet != nil && s.newSet.Spec.MinReadySeconds != s.d.Spec.MinReadySeconds
		},
		of: conditions,
	},
	{
		name:    "pods-before-other-min-ready-seconds",
		entry:   "goes by a status that was counted by other `minReadySeconds`",
		example: "create 3 3 5; webhook 1; settle; pause 1; no-webhook; scale 1; min-ready 10; settle",
		met: func(s sight) bool {
			return s.works() && s.newSet != nil && s.newSet.Spec.MinReadySeconds != s.d.Spec.MinReadySeconds &&
				len(s.claimed(s.newSet)) != int(*s.newSet.Spec.Replicas)
		},
		of: podsOrStatus,
	},
	{
		name:    "saturated-by-other-min-ready-seconds",
		entry:   "goes by a status that was counted by other `minReadySeconds`",
		example: "create 1 5 5; rolling 5 1; settle; image 2; scale 6; settle; start-all 1; recreate; pause 1; min-ready 3; settle",
		met: func(s sight) bool {
			return s.works() && len(s.active()) > 1 && s.saturated() && s.newSet.Spec.MinReadySeconds != s.d.Spec.MinReadySeconds
		},
		of: anything,
	},
	{
		name:    "name-taken-by-what-was-let-go",
		entry:   "goes on with a ReplicaSet that it has just let go",
		example: "create 1 3 0; settle; image 4; settle; free-set 0; start-all 1; delete-pod 7; settle",
		met:     func(s sight) bool { return slices.ContainsFunc(s.all, s.letsGo) },
		of:      anything,
	},
	{
		name:    "collision-seen-late",
		entry:   "counts a collision where its cache still shows an owner",
		example: "create 3 2 5; settle; delete 2; create 3 2 5; show-deployment; sync-deployment; settle",
		met:     func(s sight) bool { return s.works() && slices.ContainsFunc(s.all, s.wasLetGo) },
		of:      anything,
	},
	{
		name:    "creation-ends-the-round",
		entry:   "writes a status in the round that creates a ReplicaSet",
		example: "create 7 4 0; settle; recreate; rollback 0; image 4; deadline 8; settle; wait 12; delete-set 1; settle",
		met: func(s sight) bool {
			return s.works() && s.newSet == nil && slices.ContainsFunc(s.d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
				return c.Reason == deploymentutil.NewReplicaSetReason || c.Type == appsv1.DeploymentReplicaFailure
			})
		},
		of: regexp.MustCompile(`^Deployment web .status.conditions\[(Progressing|ReplicaFailure)\]`),
	},
	{
		name:    "adopted-before-a-creation",
		entry:   "goes on in the round that creates a ReplicaSet",
		example: "create 3 0 5; sync-deployment; free-set 3; settle; rolling 5 2; start-all 1; image 2; take-set 2; falter 5; settle",
		met: func(s sight) bool {
			return s.works() && s.newSet == nil && len(s.active()) > 1 &&
				slices.ContainsFunc(s.active(), func(rs *appsv1.ReplicaSet) bool { return metav1.GetControllerOf(rs) == nil })
		},
		of: regexp.MustCompile(`^Pod \S+ \.`),
	},
	{
		name:    "old-sets-go-as-they-were-seen",
		entry:   "deletes old ReplicaSets as they are",
		example: "create 3 4 5; settle; pause 1; scale 0; settle; image 4; history 0; scale 7; settle",
		met:     func(s sight) bool { return s.works() && s.deletesRevived() },
		of:      anything,
	},
	{
		name:    "pods-go-as-they-were-counted",
		entry:   "deletes a pod that somebody took out of the set",
		example: "create 2 5 0; settle; free-pod 1; settle; resize-set 3 0; restart 2; relist-sets; sync-set; settle",
		met:     func(s sight) bool { return slices.ContainsFunc(s.all, s.countsOthers) },
		of:      anything,
	},
	{
		name:    "pods-go-once",
		entry:   "deletes a pod that somebody took out of the set",
		example: "create 7 3 4; settle; start-all 2; image 2; settle; settle; restart 3; show-deployment; show-sets 3; sync-set; settle",
		met:     func(s sight) bool { return slices.ContainsFunc(s.shrinking(), s.countsWhatWent) },
		of:      anything,
	},
	{
		name:    "lost-write",
		entry:   "writes no status when a step fails",
		example: "create 3 2 1; settle; settle; fault 1 1; resize-set 1 2; settle",
		met: func(s sight) bool {
			return s.w.hit.failsStep() || s.works() && slices.ContainsFunc(s.active(), s.isGone)
		},
		of: status,
	},
	{
		name:    "lost-write-of-an-old-size",
		entry:   "waits for other news when it could not make an old ReplicaSet smaller",
		example: "create 7 5 4; settle; start-all 2; image 1; settle; falter 2; start 9 1; fault 0 1; settle",
		met: func(s sight) bool {
			return s.w.hit.failsStep() && s.w.hit.kind == "update replicasets" && s.rollsOut() && s.rolling() && s.shrinksOld()
		},
		of: anything,
	},
	{
		name:    "status-waits-for-the-next-sync",
		entry:   "writes a ReplicaSet's status once more at once, whatever the error",
		example: "quota 0; solo 8; settle; fault 0 6; quota 2; settle",
		met:     func(s sight) bool { return s.w.hit.kind == "update replicasets/status" && s.w.hit.how != crash },
		of:      anything, // the other loop goes by the status
	},
	{
		name:    "availability-is-looked-for-in-time",
		entry:   "looks when the next pod becomes available unless the sync failed",
		example: "solo 4; solo-min-ready 4; settle; solo 2; start-all 1; wait 2; webhook 2; settle",
		met: func(s sight) bool {
			return slices.ContainsFunc(s.all, func(rs *appsv1.ReplicaSet) bool {
				return len(rs.Status.Conditions) > 0 && rs.Status.ReadyReplicas > rs.Status.AvailableReplicas
			})
		},
		of: anything,
	},
	{
		name:    "neighbours-are-those-of-the-owner",
		entry:   "takes for related all pods that match",
		example: "create 7 0 2; settle; stray-pod 3; pause 1; start-all 1; settle",
		met:     func(s sight) bool { return slices.ContainsFunc(s.shrinking(), s.hasOtherNeighbours) },
		of:      anything,
	},
	{
		name:    "pods-in-a-total-order",
		entry:   "orders pods to be deleted by a relation with cycles",
		example: "create 6 2 1; recreate; settle; start-all 0; wait 1; delete-pod 6; settle; start-all 0; settle; settle; scale 3; settle",
		met:     func(s sight) bool { return slices.ContainsFunc(s.shrinking(), s.ordersInCycles) },
		of:      anything,
	},
	{
		name:    "alike-pods-in-a-total-order",
		entry:   "orders pods to be deleted by a relation with cycles",
		example: "solo 6; resize-set 2 8; settle; restart 2; sync-deployment; stray-pod 2; succeed 11; sync-set; settle",
		met:     func(s sight) bool { return slices.ContainsFunc(s.shrinking(), s.takesAsTheyCome) },
		of:      anything,
	},
	{
		name:    "rejected-pods-wait",
		entry:   "replaces a pod that a node rejects at once",
		example: "reject 1; create 3 0 0; settle",
		met: func(s sight) bool {
			return slices.ContainsFunc(s.all, func(rs *appsv1.ReplicaSet) bool {
				return len(s.claimed(rs)) < int(*rs.Spec.Replicas) && slices.ContainsFunc(s.pods, func(pod *corev1.Pod) bool {
					return pod.Status.Reason == outOfCPU && metav1.IsControlledBy(pod, rs)
				})
			})
		},
		of: anything,
	},
}

// explain returns the intended difference that this one is, or nil.
func explain(d difference, worlds []*world) *intended {
	for i := range intendedDifferences {
		known := &intendedDifferences[i]
		if known.of.MatchString(d.of) && (worlds[0].met[known.name] || worlds[1].met[known.name]) {
			return known
		}
	}
	return nil
}

// notice notes which circumstances a manager meets that is about to sync.
func (w *world) notice() {
	s := w.sees()
	for _, known := range intendedDifferences {
		if !w.met[known.name] && known.met(s) {
			w.met[known.name] = true
		}
	}
}

// sight is what a manager sees in its caches.
type sight struct {
	w *world
	// d is the deployment, nil if there is none.
	d *appsv1.Deployment
	// sets are those that are or will be its own, newSet among them that of its template.
	sets   []*appsv1.ReplicaSet
	newSet *appsv1.ReplicaSet
	all    []*appsv1.ReplicaSet
	pods   []*corev1.Pod
}

func (w *world) sees() sight {
	s := sight{w: w, all: w.manager.replicaSets.Cached(), pods: w.manager.pods.Cached()}
	for _, d := range w.manager.deployments.Cached() {
		s.d = d
	}
	if s.d == nil {
		return s
	}
	for _, rs := range s.all {
		if owner := metav1.GetControllerOf(rs); rs.Labels["app"] == "web" && (owner == nil || owner.UID == s.d.UID) {
			s.sets = append(s.sets, rs)
		}
	}
	s.newSet = deploymentutil.FindNewReplicaSet(s.d, s.sets)
	return s
}

func (s sight) wanted() int32 { return *s.d.Spec.Replicas }

// atMost is how many pods there may be in a rollout.
func (s sight) atMost() int32 { return s.wanted() + deploymentutil.MaxSurge(*s.d) }

func (s sight) rolling() bool { return deploymentutil.IsRollingUpdate(s.d) }

// rollsBack tells whether this round is about a rollback.
func (s sight) rollsBack() bool {
	return s.works() && !s.d.Spec.Paused && s.d.Annotations[appsv1.DeprecatedRollbackTo] != ""
}

// scales tells whether this round gives the deployment its size.
func (s sight) scales() bool {
	return s.works() && (s.d.Spec.Paused || !s.rollsBack() && s.wasScaled())
}

// rollsOut tells whether this round takes the rollout further, and has a new ReplicaSet.
func (s sight) rollsOut() bool {
	return s.works() && !s.d.Spec.Paused && !s.rollsBack() && !s.wasScaled() && s.newSet != nil
}

// shrinksOld tells whether there are pods of old ReplicaSets, and enough of all that the original looks which may go.
func (s sight) shrinksOld() bool {
	old := total(s.active()) - *s.newSet.Spec.Replicas
	return old > 0 && old+s.newSet.Status.AvailableReplicas > s.wanted()-deploymentutil.MaxUnavailable(*s.d)
}

// scalesInProportion tells whether it does so in the middle of a rollout.
func (s sight) scalesInProportion() bool {
	return s.scales() && s.rolling() && len(s.active()) > 1 && !s.saturated()
}

// works tells whether there is a deployment to work for.
func (s sight) works() bool { return s.d != nil && s.d.DeletionTimestamp == nil }

func (s sight) saturated() bool { return deploymentutil.IsSaturated(s.d, s.newSet) }

func (s sight) wasScaled() bool {
	return slices.ContainsFunc(s.active(), func(rs *appsv1.ReplicaSet) bool {
		noted, ok := deploymentutil.GetDesiredReplicasAnnotation(klog.Logger{}, rs)
		return ok && noted != s.wanted()
	})
}

// active returns the ReplicaSets that are to have pods.
func (s sight) active() []*appsv1.ReplicaSet { return upstream.FilterActiveReplicaSets(s.sets) }

// missing is how many pods are to be shared among the active ReplicaSets.
func (s sight) missing() int32 {
	if s.wanted() == 0 {
		return -total(s.active())
	}
	return s.atMost() - total(s.active())
}

// total is how many pods ReplicaSets are to have together.
func total(sets []*appsv1.ReplicaSet) int32 {
	return deploymentutil.GetReplicaCountForReplicaSets(sets)
}

// letsGo tells whether a ReplicaSet of the deployment's template is its own, and has to be let go for its labels.
func (s sight) letsGo(rs *appsv1.ReplicaSet) bool {
	return s.d != nil && metav1.IsControlledBy(rs, s.d) && rs.Labels["app"] != "web" &&
		deploymentutil.FindNewReplicaSet(s.d, []*appsv1.ReplicaSet{rs}) != nil
}

// wasLetGo tells whether the cache shows a ReplicaSet of the deployment's template as another's, which has let go of it.
func (s sight) wasLetGo(rs *appsv1.ReplicaSet) bool {
	owner := metav1.GetControllerOf(rs)
	if owner == nil || owner.UID == s.d.UID || deploymentutil.FindNewReplicaSet(s.d, []*appsv1.ReplicaSet{rs}) == nil {
		return false
	}
	now, err := s.w.replicaSets.Get(rs.Name)
	return err == nil && metav1.GetControllerOf(now) == nil
}

// isGone tells whether only the cache still has a ReplicaSet.
func (s sight) isGone(rs *appsv1.ReplicaSet) bool {
	_, err := s.w.replicaSets.Get(rs.Name)
	return err != nil
}

// deletesRevived tells whether there are more old ReplicaSets than are kept, and one of size 0 is no longer of that size or
// is about to grow in this round, as the last one does where nothing is rolled out.
func (s sight) deletesRevived() bool {
	old := slices.DeleteFunc(slices.Clone(s.sets), func(rs *appsv1.ReplicaSet) bool { return rs == s.newSet })
	if len(old) <= int(*s.d.Spec.RevisionHistoryLimit) {
		return false
	}
	grows := s.d.Spec.Paused && s.newSet == nil && len(s.active()) == 0 && s.wanted() > 0
	return grows || slices.ContainsFunc(old, func(rs *appsv1.ReplicaSet) bool {
		now, err := s.w.replicaSets.Get(rs.Name)
		return err == nil && *rs.Spec.Replicas == 0 && *now.Spec.Replicas > 0
	})
}

// wasRefused tells whether the last update of a ReplicaSet was.
func (s sight) wasRefused(rs *appsv1.ReplicaSet) bool {
	last := ""
	for _, write := range s.w.log {
		if strings.HasPrefix(write, "update replicasets "+rs.Name+" ") {
			last = write
		}
	}
	return strings.HasSuffix(last, " Conflict")
}

// waitsForSize tells whether the last update of a ReplicaSet was refused, and it makes or deletes pods before the next.
func (s sight) waitsForSize(rs *appsv1.ReplicaSet) bool {
	return s.wasRefused(rs) && len(s.claimed(rs)) != int(*rs.Spec.Replicas)
}

// oldPodsRemain tells whether pods of an old ReplicaSet may still run.
func (s sight) oldPodsRemain() bool {
	return slices.ContainsFunc(s.pods, func(pod *corev1.Pod) bool {
		ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		return !ended && slices.ContainsFunc(s.sets, func(rs *appsv1.ReplicaSet) bool {
			return rs != s.newSet && metav1.IsControlledBy(pod, rs)
		})
	})
}

// endsUntold tells whether an old ReplicaSet is to have no pods, and its status does not say yet that they are gone.
func (s sight) endsUntold() bool {
	return slices.ContainsFunc(s.sets, func(rs *appsv1.ReplicaSet) bool {
		return rs != s.newSet && *rs.Spec.Replicas == 0 &&
			(rs.Status.ObservedGeneration < rs.Generation || ptr.Deref(rs.Status.TerminatingReplicas, 0) > 0)
	})
}

// matching returns the pods that run and have the labels that a ReplicaSet selects.
func (s sight) matching(rs *appsv1.ReplicaSet) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(s.pods), func(pod *corev1.Pod) bool {
		return !lives(pod) || !labels.SelectorFromSet(rs.Spec.Selector.MatchLabels).Matches(labels.Set(pod.Labels))
	})
}

// claimed returns those of them that are or will be its own.
func (s sight) claimed(rs *appsv1.ReplicaSet) []*corev1.Pod {
	return slices.DeleteFunc(s.matching(rs), func(pod *corev1.Pod) bool {
		return metav1.GetControllerOf(pod) != nil && !metav1.IsControlledBy(pod, rs)
	})
}

// shrinking returns the ReplicaSets some but not all of whose pods have to go.
func (s sight) shrinking() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(s.all), func(rs *appsv1.ReplicaSet) bool {
		return *rs.Spec.Replicas == 0 || len(s.claimed(rs)) <= int(*rs.Spec.Replicas)
	})
}

// countsOthers tells whether a ReplicaSet seems to have too many pods, one of which has other labels by now.
func (s sight) countsOthers(rs *appsv1.ReplicaSet) bool {
	claimed := s.claimed(rs)
	return len(claimed) > int(*rs.Spec.Replicas) && slices.ContainsFunc(claimed, func(pod *corev1.Pod) bool {
		now, err := s.w.pods.Get(pod.Name)
		return err == nil && !maps.Equal(now.Labels, pod.Labels)
	})
}

// countsWhatWent tells whether the cache shows pods of a ReplicaSet that are gone or going by now, and others as they no
// longer are.
func (s sight) countsWhatWent(rs *appsv1.ReplicaSet) bool {
	goes, changed := false, false
	for _, pod := range s.claimed(rs) {
		now, err := s.w.pods.Get(pod.Name)
		went := err != nil || now.DeletionTimestamp != nil
		goes = goes || went
		changed = changed || !went && now.ResourceVersion != pod.ResourceVersion
	}
	return goes && changed
}

// hasOtherNeighbours tells whether on some node the pods that match the selectors of a ReplicaSet and its siblings are not
// as many as those which they own.
func (s sight) hasOtherNeighbours(rs *appsv1.ReplicaSet) bool {
	owner := metav1.GetControllerOf(rs)
	if owner == nil {
		return false
	}
	more := map[string]int{}
	for _, sibling := range s.all {
		if theirs := metav1.GetControllerOf(sibling); theirs == nil || theirs.UID != owner.UID {
			continue
		}
		for _, pod := range s.matching(sibling) {
			more[pod.Spec.NodeName]++
		}
		for _, pod := range s.pods {
			if lives(pod) && metav1.IsControlledBy(pod, sibling) {
				more[pod.Spec.NodeName]--
			}
		}
	}
	maps.DeleteFunc(more, func(_ string, n int) bool { return n == 0 })
	return len(more) > 0
}

// ordersInCycles tells whether two pods of a ReplicaSet have been ready for about as long, but not for the same time, and
// differ in what comes after that: the original goes by their UIDs then, kcm by what differs.
func (s sight) ordersInCycles(rs *appsv1.ReplicaSet) bool {
	pods, now := s.claimed(rs), time.Now()
	magnitude := func(since time.Time) int { return int(math.Log2(float64(max(1, now.Sub(since))))) }
	return slices.ContainsFunc(pods, func(a *corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(b *corev1.Pod) bool {
			return isReady(a) && isReady(b) &&
				!readySince(a).Equal(readySince(b)) && magnitude(readySince(a)) == magnitude(readySince(b)) &&
				(restarts(a) != restarts(b) || magnitude(a.CreationTimestamp.Time) != magnitude(b.CreationTimestamp.Time))
		})
	})
}

// takesAsTheyCome tells whether a ReplicaSet has so many pods that their order in the cache plays a part in sorting them, and
// two of them came at the same time, one of which it has not created.
func (s sight) takesAsTheyCome(rs *appsv1.ReplicaSet) bool {
	const few = 12 // slices of this length are sorted by insertion
	pods := s.claimed(rs)
	return len(pods) > few && slices.ContainsFunc(pods, func(a *corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(b *corev1.Pod) bool {
			return a.GenerateName != b.GenerateName && a.CreationTimestamp.Equal(&b.CreationTimestamp) && isReady(a) == isReady(b)
		})
	})
}

func isReady(pod *corev1.Pod) bool {
	return len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}

func restarts(pod *corev1.Pod) (n int32) {
	for _, c := range pod.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}
