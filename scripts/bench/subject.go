package main

import (
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/kcm/app"
	"github.com/kcm-book/kcm-book/labs/cluster"
)

// subject is what a trial measures.
type subject struct {
	name string
	// program is empty for the limit, which is measured without a controller
	// manager.
	program string
	// user is whose kubeconfig it gets.
	user cluster.User
	// controllers are the loops that it runs, if not all that kcm has.
	controllers []string
	// more are flags of its own, after those that all have.
	more []string
	// about is what its trial is about and phases what that is made of, where
	// it is not the load and the failovers.
	about  string
	phases []phase
}

const (
	kcmName      = "kcm"
	originalName = "original"
	allLoopsName = "original with all its loops"
	releasesName = "original that releases its Lease"
)

// deletions is what trials are about in which profiles are served, because the
// heap is measured.
const deletions = "deletions"

var limit = subject{name: "limit"}

func (b *bench) kcm() subject {
	return subject{name: kcmName, program: b.programs.kcm, user: cluster.KCM}
}

// original is a program of its own and not bin/labcluster, which can be the
// original too: the API server and all else in there would count as the
// original's memory.
func (b *bench) original() subject {
	return subject{name: originalName, program: b.programs.original, user: cluster.Reference}
}

// listening is what a trial is about in which somebody reads the trace.
const listening = "listening"

// originalWithAllLoops is the original as people run it. Most of its loops have
// nothing to do here, but their caches are filled.
func (b *bench) originalWithAllLoops() subject {
	whole := b.original()
	whole.name, whole.more = allLoopsName, []string{"--controllers=*"}
	whole.phases = []phase{coldStartFor("create"), {name: "create", run: (*trial).create}}
	return whole
}

// originalThatReleases is the original with the feature gate, off by itself,
// that has it give its Lease away when it is asked to stop.
func (b *bench) originalThatReleases() subject {
	releases := b.original()
	releases.name, releases.more = releasesName, []string{"--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true"}
	releases.phases = []phase{coldStartFor("clean"), {name: "clean", run: (*trial).failOverClean}}
	return releases
}

// with returns the same subjects for trials that are about something else than
// the load.
func with(subjects []subject, about string, phases []phase) []subject {
	var others []subject
	for _, s := range subjects {
		s.about, s.phases = about, phases
		others = append(others, s)
	}
	return others
}

// addressing returns the same subjects for trials in which they run no other
// loops than those that write where the pods of Services are.
func addressing(subjects []subject) []subject {
	others := with(subjects, "services", servicePhases)
	for i := range others {
		others[i].controllers = []string{"endpoints-controller", "endpointslice-controller"}
	}
	return others
}

// workloads is who makes the pods of Services: the original for both, so that
// the same happens to both.
func (b *bench) workloads() subject {
	others := b.original()
	others.about, others.controllers = "workloads", []string{"deployment-controller", "replicaset-controller"}
	others.more = []string{"--leader-elect=false"}
	return others
}

// file is what files about a trial of the subject are called.
func (s subject) file() string {
	if s.about != "" {
		return s.name + "-" + s.about
	}
	return s.name
}

// sharedFlags are the flags that do not depend on the cluster.
func sharedFlags(controllers []string) []string {
	return []string{
		"--controllers=" + strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--leader-elect=true",
		"--bind-address=127.0.0.1",
	}
}

// wideLimits keep the rate limits of both out of what is measured.
func wideLimits() []string { return []string{"--kube-api-qps=1000", "--kube-api-burst=2000"} }

// flags are the whole command line, the same for both.
func (s subject) flags(c *cluster.Cluster) []string {
	controllers := s.controllers
	if controllers == nil {
		controllers = app.KnownControllers()
	}
	return slices.Concat(sharedFlags(controllers), s.more, cluster.ManagerFlags(c, s.user))
}
