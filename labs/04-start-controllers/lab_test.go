// Package startcontrollers_test is the lab of chapter 04: a manager that starts
// the loops it is told to, and the first of them, which gives every namespace its
// ServiceAccount.
package startcontrollers_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

func TestStartControllers(t *testing.T) {
	l := lab.New(t, 4)
	var kcm *lab.Process
	var token string

	// account returns the UID of a namespace's default ServiceAccount, or nothing
	// if it has none.
	account := func(ctx context.Context, namespace string) (types.UID, error) {
		account, err := l.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return account.UID, nil
	}
	// awaitAccount waits until a namespace has an account other than the former.
	awaitAccount := func(s *lab.Step, namespace string, former types.UID) (now types.UID) {
		s.Helper()
		s.Await("namespace "+namespace+" has its ServiceAccount", func(ctx context.Context) (_ bool, _ string, err error) {
			now, err = account(ctx, namespace)
			return now != "" && now != former, fmt.Sprintf("UID %q", now), err
		})
		return now
	}
	// without returns the namespaces in use whose account is missing.
	without := func(ctx context.Context) ([]string, error) {
		namespaces, err := l.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		accounts, err := l.Client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
		if err != nil {
			return nil, err
		}
		has := sets.New[string]()
		for _, account := range accounts.Items {
			has.Insert(account.Namespace)
		}
		var missing []string
		for _, namespace := range namespaces.Items {
			if namespace.Status.Phase == corev1.NamespaceActive && !has.Has(namespace.Name) {
				missing = append(missing, namespace.Name)
			}
		}
		return missing, nil
	}
	awaitAll := func(s *lab.Step) {
		s.Helper()
		s.Await("every namespace has its ServiceAccount", func(ctx context.Context) (bool, string, error) {
			missing, err := without(ctx)
			return len(missing) == 0, fmt.Sprintf("%d have none", len(missing)), err
		})
	}

	l.Step("Without a manager a namespace has no account, and takes no pod", func(s *lab.Step) {
		s.Kubectl("create namespace old")
		assert.Contains(s, s.KubectlFails("run web --image=web:1 -n old"), "error looking up service account old/default")
	})

	l.Step("With one every namespace gets its account, old or new", func(s *lab.Step) {
		kcm = s.Start("kcm", lab.QuickLease...)
		awaitAccount(s, "old", "")
		s.Kubectl("create namespace new")
		awaitAccount(s, "new", "")
		awaitAll(s)
		s.Kubectl("get serviceaccounts -A --field-selector=metadata.name=default")
		s.Kubectl("run web --image=web:1 -n old")
	})

	l.Step("An account that is deleted comes back, and not in a namespace that is going", func(s *lab.Step) {
		former := awaitAccount(s, "old", "")
		s.Kubectl("create namespace going")
		awaitAccount(s, "going", "")
		s.Kubectl("delete namespace going --wait=false")
		s.Kubectl("delete serviceaccount default -n going")
		s.Kubectl("delete serviceaccount default -n old")
		now := awaitAccount(s, "old", former)
		s.Say("Its name is the same, and it is another: %s, and not %s.", now, former)
		uid, err := account(s.Context(), "going")
		require.NoError(s, err)
		assert.Empty(s, uid, "the loop has looked at it before it has looked at the other")
	})

	l.Step("--controllers refuses a name that nobody has", func(s *lab.Step) {
		misspelt := s.Start("misspelt", "--controllers=serviceacount")
		assert.Equal(s, 1, s.AwaitExit(misspelt))
		said := s.AwaitLog(misspelt, "serviceacount")
		if !lab.Reference() { // the original makes no suggestion
			assert.Contains(s, said, `did you mean "serviceaccount"?`)
		}
	})

	l.Step("--controllers takes a loop out, by an old name as well", func(s *lab.Step) {
		s.Stop(kcm)
		none := s.Start("none", slices.Concat(lab.QuickLease, []string{"--controllers=-serviceaccount"})...)
		s.AwaitLog(none, `is disabled.*"serviceaccount-controller"`)
		s.Kubectl("create namespace waiting")
		health := s.AwaitAnswer(none, "/healthz?verbose", "", 200)
		s.Say("%s", health)
		assert.NotContains(s, health, "serviceaccount-controller")
		s.Stop(none)
		uid, err := account(s.Context(), "waiting")
		require.NoError(s, err)
		assert.Empty(s, uid, "in all its life it has made no account")

		s.Say("The next one runs the loop, by its old name. It makes ten requests a second at most, so that one can watch it.")
		kcm = s.Start("alias", slices.Concat(lab.QuickLease, []string{"--controllers=serviceaccount", "--kube-api-qps=10", "--kube-api-burst=10"})...)
		awaitAccount(s, "waiting", "")
	})

	l.Step("Health names each controller to everybody, and metrics are for those who may", func(s *lab.Step) {
		token = s.Token()
		health := s.AwaitAnswer(kcm, "/healthz?verbose", "", 200)
		s.Say("%s", health)
		assert.Contains(s, health, "[+]serviceaccount-controller ok")
		s.AwaitAnswer(kcm, "/metrics", "", 403)
		s.AwaitAnswer(kcm, "/metrics", "forged", 401)
		s.AwaitAnswer(kcm, "/metrics", token, 200)
	})

	l.Step("A single check is for those who may, too", func(s *lab.Step) {
		s.OnlyKCM("the original does not serve single checks, nor readiness")
		s.AwaitAnswer(kcm, "/healthz/serviceaccount-controller", "", 403)
		assert.Equal(s, "ok", s.AwaitAnswer(kcm, "/healthz/serviceaccount-controller", token, 200))
		s.AwaitAnswer(kcm, "/healthz/replicaset-controller", token, 404)
		assert.Contains(s, s.AwaitAnswer(kcm, "/readyz?verbose", "", 200), "[+]caches-filled ok")
	})

	l.Step("What is refused is tried ever later, and holds up nothing else", func(s *lab.Step) {
		s.Kubectl("create namespace crowded")
		former := awaitAccount(s, "crowded", "")
		s.Kubectl("create -n crowded -f manifests/quota.yaml")
		s.Say("No loop here counts what is used, so we say it ourselves: nothing is left.")
		s.Kubectl(`patch -n crowded resourcequota none --subresource=status --type=merge -p '{"status":{"hard":{"count/serviceaccounts":"0"},"used":{"count/serviceaccounts":"0"}}}'`)
		s.Await("the quota is enforced", func(ctx context.Context) (bool, string, error) {
			probe := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
			_, err := l.Client.CoreV1().ServiceAccounts("crowded").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil && strings.Contains(err.Error(), "exceeded quota"), fmt.Sprint(err), nil
		})
		before := metric(s, kcm, token, `workqueue_retries_total{name="serviceaccount"}`)
		s.Kubectl("delete serviceaccount default -n crowded")
		var tries []cluster.AuditEvent
		s.Await("the loop has tried it again seven times", func(context.Context) (_ bool, _ string, err error) {
			tries, err = l.Cluster.AuditEvents(func(e cluster.AuditEvent) bool {
				return e.Namespace == "crowded" && e.Resource == "serviceaccounts" && e.Verb == "create" && e.Code == 403 &&
					strings.HasSuffix(e.UserAgent, "service-account-controller")
			})
			return len(tries) >= 8, fmt.Sprintf("%d refusals", len(tries)), err
		})
		s.AwaitLog(kcm, "exceeded quota")
		s.Await("it has counted its retries", func(context.Context) (bool, string, error) {
			retries := metric(s, kcm, token, `workqueue_retries_total{name="serviceaccount"}`) - before
			return retries >= 8, fmt.Sprintf("%g retries", retries), nil
		})
		least := 5 * time.Millisecond
		var gaps []string
		for i := range len(tries) - 1 {
			gap := tries[i+1].Time.Sub(tries[i].Time)
			gaps = append(gaps, strconv.FormatInt(gap.Milliseconds(), 10))
			assert.GreaterOrEqual(s, gap, least)
			least *= 2
		}
		s.Say("its retries reached the API server after %s ms, as a delay of 5 ms is doubled each time", strings.Join(gaps, ", "))

		s.Kubectl("create namespace beside")
		awaitAccount(s, "beside", "")
		assert.Contains(s, s.AwaitAnswer(kcm, "/healthz?verbose", "", 200), "[+]serviceaccount-controller ok")
		s.Say("Nothing is wrong with the loop, says its check.")
		s.Kubectl("delete resourcequota none -n crowded")
		s.Kubectl("label namespace crowded nudged=yes")
		awaitAccount(s, "crowded", former)
	})

	l.Step("Of its syncs and failures /metrics has the figures", func(s *lab.Step) {
		s.OnlyKCM("the original counts what is in its queues, and not the syncs of its loops")
		for _, name := range []string{
			`running_managed_controllers{manager="kube-controller-manager",name="serviceaccount-controller"}`,
			`workqueue_adds_total{name="serviceaccount"}`,
			`kcm_loop_sync_duration_seconds_count{loop="serviceaccount-controller"}`,
			`kcm_loop_sync_errors_total{loop="serviceaccount-controller"}`,
		} {
			value := metric(s, kcm, token, name)
			s.Say("%s %g", name, value)
			assert.Positive(s, value)
		}
	})

	l.Step("The leader is killed in the middle of its work, and another goes on", func(s *lab.Step) {
		recording, err := history.Record(s.Context(), l.Dynamic, "", corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
		require.NoError(s, err)
		const getHolder = "get lease -n kube-system kube-controller-manager -o jsonpath={.spec.holderIdentity}"
		holder := s.Kubectl(getHolder)
		second := s.Start("second", lab.QuickLease...)
		s.AwaitLog(second, "acquire leader lease")
		for i := range many {
			create(s, l.Client, fmt.Sprintf("many-%d", i))
		}
		s.Say("%d namespaces were created", many)
		s.Await("the first of them have their account", func(ctx context.Context) (bool, string, error) {
			missing, err := without(ctx)
			return len(missing) <= many-20, fmt.Sprintf("%d have none", len(missing)), err
		})
		s.Signal(kcm, syscall.SIGKILL)
		assert.Equal(s, -1, s.AwaitExit(kcm))
		missing, err := without(s.Context())
		require.NoError(s, err)
		s.Say("it leaves %d namespaces without", len(missing))
		assert.NotEmpty(s, missing, "it was to be killed in the middle of its work")
		awaitAll(s)
		assert.NotEqual(s, holder, s.Kubectl(getHolder))
		given := accounts{}
		s.Always(recording, "no namespace was given a second account", func(state history.State) error {
			for _, object := range state.Objects("serviceaccounts") {
				given.see(object)
			}
			return given.once()
		})
		kcm = second
	})

	l.Step("The API server goes away while namespaces are made, and comes back", func(s *lab.Step) {
		s.Stop(kcm)
		s.Say("A leader that cannot renew its Lease ends, which is chapter 03's. This one runs without election.")
		kcm = s.Start("alone", "--leader-elect=false", "--kube-api-burst=10")
		s.Kubectl("create namespace first")
		awaitAccount(s, "first", "")
		s.Say("A watch cannot always go on where it was when the API server starts anew. An informer lists then, so ours is one.")
		given := inform(s, l.Client)
		begin := time.Now()

		for i := range many / 2 {
			create(s, l.Client, fmt.Sprintf("before-%d", i))
		}
		missing, err := without(s.Context())
		require.NoError(s, err)
		assert.NotEmpty(s, missing, "it was to be in the middle of its work")
		require.NoError(s, l.Cluster.Kill(s.Context(), cluster.APIServer))
		s.Say("the API server was killed when %d namespaces had no account", len(missing))
		var made atomic.Int64
		go func() {
			for i := range many / 2 {
				err := wait.PollUntilContextCancel(s.Context(), 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
					_, err := l.Client.CoreV1().Namespaces().Create(ctx, namespace(fmt.Sprintf("during-%d", i)), metav1.CreateOptions{})
					return err == nil || apierrors.IsAlreadyExists(err), nil
				})
				if err != nil {
					return // the lab was interrupted
				}
				made.Add(1)
			}
		}()
		require.NoError(s, l.Cluster.Restart(s.Context(), cluster.APIServer))
		s.Say("and is back after %.1f s", time.Since(begin).Seconds())
		s.Await("all namespaces have been made", func(context.Context) (bool, string, error) {
			return made.Load() == many/2, fmt.Sprintf("%d of %d", made.Load(), many/2), nil
		})
		awaitAll(s)
		s.Await("the informer has seen them", func(ctx context.Context) (bool, string, error) {
			list, err := l.Client.CoreV1().ServiceAccounts("").List(ctx, metav1.ListOptions{})
			return err == nil && given.count() == len(list.Items), fmt.Sprintf("%d accounts", given.count()), err
		})
		require.NoError(s, given.once())
		s.Say("What came and went while it was away an informer has not seen, but it would stand in the audit log:")
		created := map[string]int{}
		var deleted, refused int
		_, err = l.Cluster.AuditEvents(func(e cluster.AuditEvent) bool {
			switch {
			case e.Resource != "serviceaccounts" || e.Subresource != "" || e.Time.Before(begin):
			case e.Verb == "create" && e.Code == 201:
				created[e.Namespace]++
			case e.Verb == "create" && e.Code == 409:
				refused++
			case strings.HasPrefix(e.Verb, "delete"):
				deleted++
			}
			return false
		})
		require.NoError(s, err)
		s.Say("%d accounts were created, %d were there when the loop wanted to create them, %d were deleted", len(created), refused, deleted)
		assert.Zero(s, deleted)
		for namespace, times := range created {
			assert.Equal(s, 1, times, namespace)
		}
	})
}

// many is how many namespaces keep the loop busy for some seconds.
const many = 100

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// metric returns a figure of those that a manager tells the bearer of a token,
// or 0 where it does not have it.
func metric(s *lab.Step, p *lab.Process, token, name string) float64 {
	s.Helper()
	_, all, err := s.Get(p, "/metrics", token)
	require.NoError(s, err)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (.+)$`).FindStringSubmatch(all)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(found[1], 64)
	require.NoError(s, err)
	return value
}

func create(s *lab.Step, client kubernetes.Interface, name string) {
	s.Helper()
	_, err := client.CoreV1().Namespaces().Create(s.Context(), namespace(name), metav1.CreateOptions{})
	require.NoError(s, err)
}

// accounts are all ServiceAccounts that were ever seen, by namespace and name.
type accounts map[string]sets.Set[types.UID]

func (a accounts) see(account metav1.Object) {
	key := account.GetNamespace() + "/" + account.GetName()
	if a[key] == nil {
		a[key] = sets.New[types.UID]()
	}
	a[key].Insert(account.GetUID())
}

// once returns an error if there was ever a second account in place of a first.
func (a accounts) once() error {
	for key, uids := range a {
		if len(uids) > 1 {
			return fmt.Errorf("%s was %v", key, sets.List(uids))
		}
	}
	return nil
}

// informed are the accounts that an informer has told of.
type informed struct {
	mu   sync.Mutex
	seen accounts
}

// inform has an informer tell of all accounts until the lab ends.
func inform(s *lab.Step, client kubernetes.Interface) *informed {
	s.Helper()
	i := &informed{seen: accounts{}}
	see := func(obj any) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.seen.see(obj.(*corev1.ServiceAccount))
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	registration, err := factory.Core().V1().ServiceAccounts().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, now any) { see(now) },
	})
	require.NoError(s, err)
	factory.StartWithContext(s.Context())
	s.Await("an informer has all accounts", func(context.Context) (bool, string, error) {
		return registration.HasSynced(), fmt.Sprintf("%d accounts", i.count()), nil
	})
	return i
}

func (i *informed) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.seen)
}

func (i *informed) once() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen.once()
}
