package main

import (
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
	// allLoops says that it runs what it runs without --controllers.
	allLoops bool
	// deletes says that its trial is about deletions, and grows that it is about
	// ever more neighbours.
	deletes, grows bool
}

const (
	kcmName      = "kcm"
	originalName = "original"
	allLoopsName = "original with all its loops"
)

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

// originalWithAllLoops is the original as people run it. Most of its loops have
// nothing to do here, but their caches are filled.
func (b *bench) originalWithAllLoops() subject {
	whole := b.original()
	whole.name, whole.allLoops = allLoopsName, true
	return whole
}

// deleting returns the same subjects for trials of deletions.
func deleting(subjects []subject) []subject {
	var deleting []subject
	for _, s := range subjects {
		s.deletes = true
		deleting = append(deleting, s)
	}
	return deleting
}

// growing returns the same subjects for trials among ever more neighbours.
func growing(subjects []subject) []subject {
	var growing []subject
	for _, s := range subjects {
		s.grows = true
		growing = append(growing, s)
	}
	return growing
}

// file is what files about a trial of the subject are called.
func (s subject) file() string {
	switch {
	case s.deletes:
		return s.name + "-deletions"
	case s.grows:
		return s.name + "-growth"
	}
	return s.name
}

// sharedFlags are the flags that do not depend on the cluster.
func sharedFlags() []string {
	return []string{
		"--controllers=" + strings.Join(app.KnownControllers(), ","),
		"--use-service-account-credentials=true",
		"--leader-elect=true",
		"--bind-address=127.0.0.1",
	}
}

// wideLimits keep the rate limits of both out of what is measured.
func wideLimits() []string { return []string{"--kube-api-qps=1000", "--kube-api-burst=2000"} }

// flags are the whole command line, the same for both.
func (s subject) flags(c *cluster.Cluster) []string {
	flags := sharedFlags()
	if s.allLoops {
		flags = append(flags, "--controllers=*")
	}
	return append(flags, cluster.ManagerFlags(c, s.user)...)
}
