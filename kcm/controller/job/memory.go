package job

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// memory is what this process knows of a Job besides what its caches show. No
// counting depends on it: it is lost when the process ends.
type memory struct {
	job      types.UID
	failures failures
	// written is the version of the Job since its status was last written. What
	// an older one says of pods has been overtaken.
	written string
}

// isAhead tells whether the cache shows an older Job than was written.
func (m *memory) isAhead(job *batchv1.Job) bool {
	order, err := resourceversion.CompareResourceVersion(job.ResourceVersion, m.written)
	return err == nil && order < 0
}

// memories are those of all Jobs. Only one sync at a time has that of a Job.
type memories struct {
	mu    sync.Mutex
	byJob map[cache.ObjectName]*memory
}

func newMemories() *memories { return &memories{byJob: map[cache.ObjectName]*memory{}} }

// of returns what is known of this Job, and not what was of an earlier one of the
// same name.
func (m *memories) of(job *batchv1.Job) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := cache.MetaObjectToName(job)
	if known := m.byJob[key]; known == nil || known.job != job.UID {
		m.byJob[key] = &memory{job: job.UID}
	}
	return m.byJob[key]
}

func (m *memories) forget(key cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byJob, key)
}
