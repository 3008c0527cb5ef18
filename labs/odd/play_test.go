package odd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/cluster/clustertest"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestTheAPIServerTakesMoreThanAThirdOfWhatIsDrawn(t *testing.T) {
	r := &round{Player: &Player{cluster: clustertest.Cluster(t)}, uids: map[string]types.UID{}}
	client := clustertest.Client(t)
	taken, created, all := 0, map[string]int{}, 0
	for seed := range uint64(6) {
		for _, name := range Namespaces(seed) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			_, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
			require.NoError(t, err)
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			_, err = client.CoreV1().ServiceAccounts(name).Create(t.Context(), account, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		for _, op := range Draw(seed) {
			all++
			if err := r.send(t.Context(), op); err == nil {
				taken++
				created[op.Kind.String()]++
			}
			_ = proxy.Pause(t.Context(), time.Now().Add(op.Pause/5))
		}
	}
	t.Logf("%d of %d", taken, all)
	assert.Greater(t, 3*taken, all)
	for _, k := range vocabulary.Kinds {
		if k.Often >= 6 {
			assert.NotZero(t, created[k.String()], k)
		}
	}
}

func TestAManagerThatPanicsIsFoundOut(t *testing.T) {
	clustertest.SkipIfShort(t)
	program := filepath.Join(t.TempDir(), "manager")
	script := `#!/bin/sh
case $1 in
--help) echo 'All controllers: job-controller' ;;
*) sleep 1; echo 'Observed a panic'; exit 2 ;;
esac
`
	require.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	result, err := (&Player{Program: program}).Play(t.Context(), 1, Draw(1), "")
	require.NoError(t, err)
	require.Len(t, result.Findings, 1)
	require.Equal(t, "panic", result.Findings[0].About)
}

func TestWhatALoopAsksForOverAndOverIsHot(t *testing.T) {
	ask := func(times int, user, verb, namespace, name string) (events []cluster.AuditEvent) {
		for range times {
			events = append(events, cluster.AuditEvent{
				User: authenticationv1.UserInfo{Username: user}, Verb: verb, ResponseStatus: &metav1.Status{},
				ObjectRef: &auditv1.ObjectReference{Resource: "pods", Namespace: namespace, Name: name},
			})
		}
		return events
	}
	const loop = loops + "job-controller"
	hot := func(events []cluster.AuditEvent, in time.Duration) []string { return hot(events, nil, nil, in) }
	require.Empty(t, hot(ask(30, loop, "patch", "odd", "a"), time.Minute))
	require.Len(t, hot(ask(31, loop, "patch", "odd", "a"), time.Minute), 1)
	require.Len(t, hot(ask(11, loop, "patch", "odd", "a"), 20*time.Second), 1)
	require.Empty(t, hot(ask(180, loop, "create", "odd", ""), time.Minute), "creations have no name yet")
	require.Len(t, hot(ask(181, loop, "create", "odd", ""), time.Minute), 1)
	require.Empty(t, hot(ask(1000, loop, "patch", canaries+"3", "a"), time.Minute), "a canary is no odd object")
	require.Empty(t, hot(ask(1000, "admin", "patch", "odd", "a"), time.Minute), "users may ask as often as they like")
}

func TestALoopThatSyncsOverAndOverIsHotWhateverComesOfIt(t *testing.T) {
	const loop = `kcm_loop_sync_duration_seconds_count{loop="job"}`
	before := map[string]int{loop: 500, "other": 0}
	require.Empty(t, hot(nil, before, map[string]int{loop: 1700, "other": 9000}, time.Minute))
	require.Len(t, hot(nil, before, map[string]int{loop: 1701}, time.Minute), 1)
}

func TestGrowthIsWhatTheLastRoundsNeedMoreThanAnyOfTheFirst(t *testing.T) {
	grows := func(by int) (rounds []map[string]int) {
		for i := range 9 {
			rounds = append(rounds, map[string]int{Goroutines: 500 + by*i, Heap: (30 + by*i) << 20})
		}
		return rounds
	}
	growth := func(metrics []map[string]int) []Finding { return (&Player{metrics: metrics}).Growth() }
	require.Empty(t, growth(grows(0)))
	require.Len(t, growth(grows(20)), 2)
	require.Empty(t, growth(grows(20)[:5]), "too few rounds tell nothing")
	once := grows(20)
	once[8] = once[0]
	require.Empty(t, growth(once))
}

func TestWhatIsPrintedOfAnOperationIsShort(t *testing.T) {
	for seed := range uint64(20) {
		for _, op := range Draw(seed) {
			require.Less(t, strings.Count(op.String(), "\n"), 300, op)
		}
	}
}
