package job

import (
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// memory is what this process knows of a Job besides what its caches show. It is
// lost when the process ends, and then the caches show it.
type memory struct {
	job types.UID
	// released are pods whose finalizer was taken off. While the cache shows them
	// with it, they would be counted again: the status that is written on the
	// strength of an old pod may itself be quite new.
	released sets.Set[types.UID]
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
		m.byJob[key] = &memory{job: job.UID, released: sets.Set[types.UID]{}}
	}
	return m.byJob[key]
}

// release notes that a pod's finalizer is gone. It may be called by several
// goroutines of a sync.
func (m *memories) release(job *batchv1.Job, pod types.UID) {
	known := m.of(job)
	m.mu.Lock()
	defer m.mu.Unlock()
	known.released.Insert(pod)
}

func (m *memories) forget(key cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byJob, key)
}

// stillShown returns those of the released pods that the cache shows with their
// finalizers. A cache never goes back, so the others need not be remembered.
func stillShown(released sets.Set[types.UID], pods []*corev1.Pod) sets.Set[types.UID] {
	shown := sets.Set[types.UID]{}
	for _, pod := range pods {
		if released.Has(pod.UID) && hasFinalizer(pod) {
			shown.Insert(pod.UID)
		}
	}
	return shown
}
