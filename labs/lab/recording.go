package lab

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kcm-book/kcm-book/labs/history"
)

// Record records, until the lab ends, every version of the pods, ReplicaSets,
// ReplicationControllers and Deployments of a namespace. It goes on where it was
// when the API server comes back.
func (s *Step) Record(namespace string) *history.Recording {
	s.Helper()
	recording, err := history.Record(s.lab.ctx, s.lab.Dynamic, namespace,
		corev1.SchemeGroupVersion.WithResource("pods"),
		corev1.SchemeGroupVersion.WithResource("replicationcontrollers"),
		appsv1.SchemeGroupVersion.WithResource("replicasets"),
		appsv1.SchemeGroupVersion.WithResource("deployments"),
	)
	require.NoError(s, err)
	return recording
}

// Always looks back over everything that was recorded and fails with the first
// state for which holds returns an error.
func (s *Step) Always(recording *history.Recording, what string, holds func(history.State) error) {
	s.Helper()
	changes := s.changes(recording)
	for i, state := range history.States(changes) {
		if err := holds(state); err != nil {
			require.Fail(s, "it was not always so", "%s: %v, after change %d of %d: %s of %s %s",
				what, err, i+1, len(changes), changes[i].Type, changes[i].Resource, changes[i].Object.GetName())
		}
	}
	s.Say("in all %d recorded states: %s", len(changes), what)
}

// changes returns everything that has happened until now.
func (s *Step) changes(recording *history.Recording) []history.Change {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.lab.ctx, patience)
	defer cancel()
	_, err := recording.CatchUp(ctx)
	require.NoError(s, err)
	changes, err := recording.Changes()
	require.NoError(s, err)
	return changes
}

// Created returns the names of the pods that were ever created.
func (s *Step) Created(recording *history.Recording) []string {
	s.Helper()
	var names []string
	for _, change := range s.changes(recording) {
		if change.Resource == "pods" && !slices.Contains(names, change.Object.GetName()) {
			names = append(names, change.Object.GetName())
		}
	}
	return names
}
