package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// runLoad runs phases and keeps what they have taken together.
func (t *trial) runLoad(ctx context.Context, phases []phase) error {
	if len(phases) == 0 {
		return nil
	}
	begin := time.Now()
	before, err := t.leader.usage()
	if err != nil {
		return err
	}
	for _, p := range phases {
		if err := t.profiled(ctx, p.name, func() error { return p.run(t, ctx) }); err != nil {
			return err
		}
	}
	end := time.Now()
	after, err := t.leader.usage()
	if err != nil {
		return err
	}
	t.result.Values[keyPeak] = after.peak
	t.result.Values[keyCPU] = after.cpu - before.cpu
	requests, err := t.countRequests(begin, end)
	if err != nil {
		return err
	}
	t.result.Values[keyRequests] = float64(len(requests))
	for _, e := range requests {
		t.result.Values[keyRequestsOf(e.Verb)]++
	}
	t.say("load: CPU %.1f s, peak RSS %.0f MiB, %.0f requests", t.result.Values[keyCPU], after.peak, t.result.Values[keyRequests])
	return nil
}

// countRequests returns the controller manager's requests of a time, and keeps
// how many there were of each kind.
func (t *trial) countRequests(begin, end time.Time) ([]cluster.AuditEvent, error) {
	requests, err := t.requests(begin, end)
	if t.result.Requests == nil {
		t.result.Requests = map[string]int{}
	}
	for _, e := range requests {
		t.result.Requests[describe(e)]++
	}
	return requests, err
}

// requests returns the controller manager's requests of a time.
func (t *trial) requests(begin, end time.Time) ([]cluster.AuditEvent, error) {
	return t.cluster.AuditEvents(func(e cluster.AuditEvent) bool {
		return isControllerManager(e.User) && !e.Time.Before(begin) && !e.Time.After(end)
	})
}

// isControllerManager tells whether a user is the controller manager or one of
// its loops. Nobody else on the cluster goes by these names.
func isControllerManager(user string) bool {
	return user == "system:kube-controller-manager" || strings.HasPrefix(user, "system:serviceaccount:kube-system:")
}

// describe says what a request was for, such as "update deployments/status",
// and the status code if it has failed.
func describe(e cluster.AuditEvent) string {
	resource := e.Resource
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	if e.Code >= 400 {
		return fmt.Sprintf("%s %s (%d)", e.Verb, resource, e.Code)
	}
	return e.Verb + " " + resource
}
