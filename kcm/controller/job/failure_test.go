package job

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"
)

func TestAFailureIsToldThoughTheJobHasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(true)
		m.start(t)
		job := m.job()
		job.Labels = map[string]string{"changed": "unseen"}
		stored(m.jobs.Update(job))
		err := m.sync(t, answers{how: denied, refusal: refusals[0]})
		require.True(t, apierrors.IsForbidden(err), "a quota refuses pods, and the status could not be written: %v", err)
	})
}
