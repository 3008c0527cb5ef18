package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Keys of the values that a trial measures. Times are in seconds, memory is in
// MiB.
const (
	keyRate         = "podsPerSecond"
	keyExist        = "podsExist"
	keyReady        = "podsReady"
	keyComplete     = "deploymentComplete"
	keyUpdate       = "rollingUpdate"
	keyZero         = "scaleToZero"
	keyManyExist    = "manyPodsExist"
	keyManyReady    = "manyPodsReady"
	keyManyComplete = "manyDeploymentsComplete"
	keyColdStart    = "coldStart"
	keyClean        = "failoverClean"
	keyKilled       = "failoverKilled"
	keyPodCPU       = "cpuPerPod"
	keyPodWrites    = "writesPerPod"
	keyResident     = "rss"
	keyAnonymous    = "rssAnonymous"
	keyPeak         = "rssPeak"
	keyCPU          = "cpu"
	keyRequests     = "requests"

	keyNamespace         = "namespaceGone"
	keyNamespaceRequests = "namespaceRequests"
	keyObject            = "bytesPerObject"
	keyGraph             = "rssOfGraph"
	keyCollect           = "orphansCollected"
	keyCollectRequests   = "collectRequests"

	keyRelabel        = "relabel"
	keyRelabelPatched = "relabelPatched"
	keyRelabelCPU     = "relabelCPU"
	keyQuota          = "quotaCounted"
	keyRecount        = "quotaRecounted"
	keyRecountCPU     = "quotaRecountCPU"
	keyRestart        = "restart"
	keyRestartListed  = "restartListed"
	keyRestartPeak    = "restartPeak"

	keyDaemons           = "daemonsReady"
	keyDaemonsCPU        = "daemonsCPU"
	keyDaemonsWrites     = "daemonsWrites"
	keyLabelCPU          = "labelCPU"
	keyDaemonsGone       = "daemonsGone"
	keyDaemonsGoneWrites = "daemonsGoneWrites"
	keyDaemonsPatched    = "daemonsPatched"

	// These come before the keys of what is measured of the two loads of Jobs; by
	// themselves they are for the time.
	keyJob         = "job"
	keyManyJobs    = "manyJobs"
	keyJobCPU      = ":cpuPerPod"
	keyJobWrites   = ":writesPerPod"
	keyJobPods     = ":createsPerPod"
	keyJobPatches  = ":patchesPerPod"
	keyJobStatuses = ":statusesPerPod"
	keyJobEvents   = ":eventsPerPod"
	keyJobOthers   = ":othersPerPod"

	keyRight      = "right"
	keyLate       = "rightAfterLastPod"
	keyWrites     = "writes"
	keyIdleWrites = "idleWrites"
	keyWritten    = "MiBWritten"
	keyServiceCPU = "cpu"

	// served and replaced come before the keys of what is measured while the pods of a
	// Service come, and while others take their place.
	served, replaced = "served:", "replaced:"

	// huge comes before the keys of what is measured of the 5000 pods.
	huge = "huge:"
	// heard comes before those while somebody reads kcm's trace, and unheard before
	// those in between.
	heard, unheard = "heard:", "unheard:"
)

// keyRequestsOf is for the requests of one verb.
func keyRequestsOf(verb string) string { return keyRequests + ":" + verb }

// keyWritesOf is for the writes of one kind of object.
func keyWritesOf(resource string) string { return keyWrites + ":" + resource }

// keyChange and keyChangeCPU are for a pod that changes among so many Services.
func keyChange(others int) string    { return fmt.Sprintf("changeAmong:%d", others) }
func keyChangeCPU(others int) string { return fmt.Sprintf("changeAmongCPU:%d", others) }

// row is a line of the table.
type row struct {
	key, name, unit string
	// more tells that more is better.
	more bool
	// beside is whose values stand beside kcm's, if not the original's.
	beside string
	// besideKey is under which key these are, if not under key.
	besideKey string
}

// rows are the lines of the table, before those for each verb.
var rows = []row{
	{key: keyRate, name: "1000-pod Deployment: pods created", unit: "pods/s", more: true},
	{key: keyExist, name: "1000-pod Deployment: all pods exist", unit: "s"},
	{key: keyReady, name: "1000-pod Deployment: all pods Ready", unit: "s"},
	{key: keyPodCPU, name: "  CPU for each pod", unit: "ms"},
	{key: unheard + keyPodCPU, name: "  CPU for each pod, beside kcm while somebody reads its trace", unit: "ms", beside: kcmName, besideKey: heard + keyPodCPU},
	{key: unheard + keyReady, name: "  all pods Ready, beside the same", unit: "s", beside: kcmName, besideKey: heard + keyReady},
	{key: keyPodWrites, name: "  API writes for each pod"},
	{key: keyUpdate, name: "1000-pod Deployment: rolling update", unit: "s"},
	{key: keyZero, name: "1000-pod Deployment: scale to zero", unit: "s"},
	{key: keyManyExist, name: "200 Deployments x 10: all pods exist", unit: "s"},
	{key: keyManyReady, name: "200 Deployments x 10: all pods Ready", unit: "s"},
	{key: keyColdStart, name: "cold start: each loop has worked", unit: "s"},
	{key: keyClean, name: "failover, leader asked to stop", unit: "s"},
	{key: keyClean, name: "  beside the original with ControllerManagerReleaseLeaderElectionLockOnExit", unit: "s", beside: releasesName},
	{key: keyKilled, name: "failover, leader killed", unit: "s"},
	{key: keyNamespace, name: "namespace with 1000 pods deleted: gone", unit: "s"},
	{key: keyNamespaceRequests, name: "  API requests"},
	{key: keyCollect, name: "50,000 objects: 10,000 orphans collected", unit: "s"},
	{key: keyCollectRequests, name: "  API requests"},
	{key: keyObject, name: "  heap for each object", unit: "bytes"},
	{key: keyGraph, name: "  RSS with all of them", unit: "MiB"},
	{key: keyRolloutCPU(200), name: "rollout among 200 Deployments: CPU", unit: "ms"},
	{key: keyRolloutCPU(1000), name: "  among 1000", unit: "ms"},
	{key: keyRolloutCPU(2000), name: "  among 2000", unit: "ms"},
	{key: keyRolloutTime(200), name: "rollout among 200 Deployments: complete", unit: "s"},
	{key: keyRolloutTime(1000), name: "  among 1000", unit: "s"},
	{key: keyRolloutTime(2000), name: "  among 2000", unit: "s"},
	{key: keyRestart, name: "restart with 22,000 objects: a pod created", unit: "s"},
	{key: keyRestartListed, name: "  a plain client has listed them", unit: "s"},
	{key: keyRestartPeak, name: "  RSS, peak", unit: "MiB"},
	{key: keyRelabel, name: "1000 pods relabelled: all replaced", unit: "s"},
	{key: keyRelabelPatched, name: "  a plain client has relabelled them", unit: "s"},
	{key: keyRelabelCPU, name: "  CPU", unit: "s"},
	{key: keyQuota, name: "quota over 10,000 pods: counted for the first time", unit: "s"},
	{key: keyRecount, name: "  counted again when one goes", unit: "ms"},
	{key: keyRecountCPU, name: "  CPU for that", unit: "ms"},
	{key: huge + keyRate, name: "5000-pod Deployment: pods created", unit: "pods/s", more: true},
	{key: huge + keyReady, name: "  all pods Ready", unit: "s"},
	{key: huge + keyPodCPU, name: "  CPU for each pod", unit: "ms"},
	{key: huge + keyPodWrites, name: "  API writes for each pod"},
	{key: huge + keyResident, name: "  RSS", unit: "MiB"},
	{key: keyDaemons, name: "DaemonSet of 1000 nodes: all pods Ready", unit: "s"},
	{key: keyDaemonsCPU, name: "  CPU for each pod", unit: "ms"},
	{key: keyDaemonsWrites, name: "  API writes for each pod"},
	{key: keyLabelCPU, name: "1000 nodes get a label that none of 100 others asks for: CPU", unit: "s"},
	{key: keyDaemonsGone, name: "1000 nodes lose its label: all pods gone", unit: "s"},
	{key: keyDaemonsPatched, name: "  a plain client has taken it away", unit: "s"},
	{key: keyDaemonsGoneWrites, name: "  API writes for each pod"},
	{key: keyJob, name: "Job of 1000 pods, 100 at a time: over", unit: "s"},
	{key: keyJob + keyJobCPU, name: "  CPU for each pod", unit: "ms"},
	{key: keyJob + keyJobWrites, name: "  API writes for each pod"},
	{key: keyJob + keyJobPods, name: "    pods created"},
	{key: keyJob + keyJobPatches, name: "    pods patched or deleted"},
	{key: keyJob + keyJobStatuses, name: "    statuses of the Job"},
	{key: keyJob + keyJobEvents, name: "    events"},
	{key: keyManyJobs, name: "200 Jobs x 5 pods at once: all over", unit: "s"},
	{key: keyManyJobs + keyJobCPU, name: "  CPU for each pod", unit: "ms"},
	{key: keyManyJobs + keyJobWrites, name: "  API writes for each pod"},
	{key: keyManyJobs + keyJobPods, name: "    pods created"},
	{key: keyManyJobs + keyJobPatches, name: "    pods patched or deleted"},
	{key: keyManyJobs + keyJobStatuses, name: "    statuses of Jobs"},
	{key: keyManyJobs + keyJobEvents, name: "    events"},
	{key: served + keyWrites, name: "Service of 1000 pods that come: API writes"},
	{key: served + keyWritesOf("endpointslices"), name: "  of slices"},
	{key: served + keyIdleWrites, name: "  of these, about no pod that is ready"},
	{key: served + keyWritten, name: "  written", unit: "MiB"},
	{key: served + keyServiceCPU, name: "  CPU", unit: "s"},
	{key: served + keyRight, name: "  all told", unit: "s"},
	{key: served + keyLate, name: "  ready pods told, after the last is Ready", unit: "ms"},
	{key: replaced + keyWrites, name: "Service of 1000 pods rolled out: API writes"},
	{key: replaced + keyWritesOf("endpointslices"), name: "  of slices"},
	{key: replaced + keyIdleWrites, name: "  of these, about no pod that is ready"},
	{key: replaced + keyWritten, name: "  written", unit: "MiB"},
	{key: replaced + keyServiceCPU, name: "  CPU", unit: "s"},
	{key: replaced + keyRight, name: "  all told", unit: "s"},
	{key: replaced + keyLate, name: "  ready pods told, after the last is Ready", unit: "ms"},
	{key: keyChangeCPU(fewServices), name: "a pod changes among 10 Services: CPU", unit: "ms"},
	{key: keyChangeCPU(manyServices), name: "  among 1000", unit: "ms"},
	{key: keyChange(fewServices), name: "a pod changes among 10 Services: told", unit: "ms"},
	{key: keyChange(manyServices), name: "  among 1000", unit: "ms"},
	{key: keyResident, name: "RSS with 1000 pods", unit: "MiB"},
	{key: keyResident, name: "  beside the original with all its loops", unit: "MiB", beside: allLoopsName},
	{key: keyPeak, name: "RSS, peak", unit: "MiB"},
	{key: keyCPU, name: "CPU during the load", unit: "s"},
	{key: keyRequests, name: "API requests during the load"},
}

// rowsOf returns the rows of which all results of both subjects have a value,
// with one for each verb that any of them has used.
func rowsOf(results []*result) []row {
	verbs := map[string]bool{}
	for _, r := range results {
		for key := range r.Values {
			if verb, ok := strings.CutPrefix(key, keyRequestsOf("")); ok {
				verbs[verb] = true
			}
		}
	}
	all := slices.Clone(rows)
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		all = append(all, row{key: keyRequestsOf(verb), name: "  " + verb})
	}
	return all
}
