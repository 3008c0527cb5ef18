package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/kcm-book/kcm-book/kcm/trace"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/faults"
	"github.com/kcm-book/kcm-book/labs/history"
	"github.com/kcm-book/kcm-book/labs/process"
)

// Lab shows the managers of a cluster, and lets them be disturbed.
type Lab struct {
	*View
	// Replaces says that a manager is started in place of one that has ended.
	Replaces bool

	cluster *cluster.Cluster
	client  kubernetes.Interface
	hand    *faults.Hand
	flags   []string
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	managers map[string]*process.Process
}

// NewLab begins to record what is in all namespaces of a cluster. The managers are kcm, or the original if reference is
// true. The caller closes the lab.
func NewLab(ctx context.Context, c *cluster.Cluster, reference bool, title string) (l *Lab, err error) {
	l = &Lab{View: New(title), cluster: c, managers: map[string]*process.Process{}}
	user := cluster.KCM
	if reference {
		user = cluster.Reference
		l.Missing = "The original tells nothing of its inside. " +
			"What it does to objects is shown; queues, syncs and caches cannot be."
	}
	admin := c.RESTConfig(cluster.Admin)
	l.client = kubernetes.NewForConfigOrDie(admin)
	client := dynamic.NewForConfigOrDie(admin)
	resources := map[string]dynamic.ResourceInterface{}
	for resource, group := range map[string]string{
		"deployments": "apps", "replicasets": "apps", "replicationcontrollers": "", "pods": "", "nodes": "",
	} {
		resources[resource] = client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
	}
	kubeconfig := filepath.Join(filepath.Dir(c.Kubeconfigs[cluster.Admin]), "view.kubeconfig")
	if l.hand, err = faults.NewHand(c, user, kubeconfig); err != nil {
		return nil, err
	}
	l.flags = []string{"--kubeconfig=" + kubeconfig}
	l.ctx, l.stop = context.WithCancel(ctx)
	recorded, err := history.Record(l.ctx, resources)
	if err != nil {
		l.stop()
		l.hand.Close()
		return nil, err
	}
	l.Asked = l.hand.Deletes
	l.Deeds = l.deeds()
	l.running.Go(func() { l.Record(l.ctx, recorded, faults.NewJudge()) })
	l.running.Go(recorded.Wait)
	return l, nil
}

// Close returns when nothing is told any more. The managers that others have started have to have ended.
func (l *Lab) Close() {
	l.stop()
	l.hand.Close()
	l.running.Wait()
}

// Flags are those with which a manager has to be started to be disturbed.
func (l *Lab) Flags() []string { return l.flags }

// Started says that a manager was started, which serves on a port. Again starts one more like it.
func (l *Lab) Started(name, port string, p *process.Process, again func() (string, *process.Process, error)) {
	l.mu.Lock()
	l.managers[name] = p
	l.mu.Unlock()
	l.Manager(name, "waits")
	alive, over := context.WithCancel(l.ctx)
	if l.Missing == "" {
		l.running.Go(func() { l.listen(alive, name, port) })
	}
	l.running.Go(func() {
		err := wait.PollUntilContextCancel(alive, 100*time.Millisecond, false, func(context.Context) (bool, error) {
			// kcm and the original begin the line with another letter.
			return strings.Contains(p.Log.String(), "uccessfully acquired lease"), nil
		})
		if err == nil {
			l.Manager(name, "leads")
		}
	})
	l.running.Go(func() {
		defer over()
		began := time.Now()
		select {
		case <-l.ctx.Done():
			return
		case <-p.Exited:
		}
		l.Manager(name, "gone")
		// One that ends at once would do so again.
		if l.Replaces && time.Since(began) > time.Second {
			l.replace(name, again)
		}
	})
}

// listen tells of the steps of a manager that serves on a port of this machine, until ctx ends.
func (l *Lab) listen(ctx context.Context, manager, port string) {
	config := l.cluster.RESTConfig(cluster.Admin)
	// The manager signs its certificate itself, and it is ours.
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		l.Did(fmt.Sprintf("The trace of %s cannot be read: %v", manager, err))
		return
	}
	defer client.CloseIdleConnections()
	// One that does not serve yet is asked again.
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:"+port+trace.Path, nil)
		response, err := client.Do(request)
		if err != nil {
			return
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return
		}
		for lines := json.NewDecoder(response.Body); ; {
			var step trace.Step
			if lines.Decode(&step) != nil {
				return
			}
			l.Step(manager, step)
		}
	}, 50*time.Millisecond)
}

// replace starts another manager in place of one that has ended.
func (l *Lab) replace(name string, again func() (string, *process.Process, error)) {
	port, p, err := again()
	if err != nil {
		l.Did(fmt.Sprintf("No manager could be started in place of %s: %v", name, err))
		return
	}
	context.AfterFunc(l.ctx, p.Kill)
	l.mu.Lock()
	n := len(l.managers) + 1
	l.mu.Unlock()
	l.Started(fmt.Sprintf("kcm-%d", n), port, p, again)
}

// deeds are what the buttons do: some give the loops something to do, the others disturb them.
func (l *Lab) deeds() []Deed {
	change := func(change func(*appsv1.Deployment)) func(context.Context) error {
		return func(ctx context.Context) error { return l.change(ctx, change) }
	}
	arm := func(kind, resource string) func(context.Context) error {
		return func(context.Context) error { return l.hand.Arm(kind, resource) }
	}
	return []Deed{
		{"Roll out", "the Deployment gets another image", change(func(d *appsv1.Deployment) {
			image := &d.Spec.Template.Spec.Containers[0].Image
			*image = cmp.Or(map[string]string{"web:1": "web:2", "web:2": "web:3"}[*image], "web:1")
		})},
		{"One pod more", "the Deployment is scaled up by one", change(func(d *appsv1.Deployment) { *d.Spec.Replicas++ })},
		{"One pod fewer", "the Deployment is scaled down by one", change(func(d *appsv1.Deployment) {
			*d.Spec.Replicas = max(*d.Spec.Replicas-1, 0)
		})},
		{"Delete a pod", "somebody deletes a pod", l.deletePod},
		{"Watch late", "the next event of a pod, and what follows it, comes 1.5 s late", arm("late", "pods")},
		{"Watch cut", "the next event of a pod is never seen: the watch ends, and half a second later all pods are " +
			"listed anew", arm("miss", "pods")},
		{"Write refused", "the next write is refused with an internal error", arm("refuse-500", "")},
		{"Answer lost", "the next write is done, and its answer is lost", arm("lose", "")},
		{"Leader killed", "the leader is gone without a word; the next one waits until its Lease has run out",
			l.toLeader(func(_ string, leader *process.Process) { leader.Kill() })},
		{"Leader frozen", "the leader is stopped, and wakes up when the next one writes", l.toLeader(l.freeze)},
		{"API server killed", "the API server is killed, and started anew three seconds later", l.killAPIServer},
	}
}

// change changes the first Deployment that there is.
func (l *Lab) change(ctx context.Context, change func(*appsv1.Deployment)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		all, err := l.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{FieldSelector: ours})
		if err != nil {
			return err
		}
		if len(all.Items) == 0 {
			return errors.New("there is no Deployment")
		}
		d := &all.Items[0]
		change(d)
		_, err = l.client.AppsV1().Deployments(d.Namespace).Update(ctx, d, metav1.UpdateOptions{})
		return err
	})
}

// ours leaves out what belongs to the cluster.
const ours = "metadata.namespace!=kube-system,metadata.namespace!=local-path-storage"

func (l *Lab) deletePod(ctx context.Context) error {
	pods, err := l.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: ours})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp == nil })
	if i < 0 {
		return errors.New("there is no pod to delete")
	}
	return l.client.CoreV1().Pods(pods.Items[i].Namespace).Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{})
}

// toLeader does something to the manager that leads.
func (l *Lab) toLeader(do func(name string, leader *process.Process)) func(context.Context) error {
	return func(context.Context) error {
		l.View.mu.Lock()
		name := l.View.leader
		l.View.mu.Unlock()
		l.mu.Lock()
		leader := l.managers[name]
		l.mu.Unlock()
		if leader == nil || !leader.Running() {
			return errors.New("nobody leads at the moment")
		}
		do(name, leader)
		return nil
	}
}

func (l *Lab) freeze(name string, leader *process.Process) {
	_ = leader.Cmd.Process.Signal(syscall.SIGSTOP) // it may have ended just now
	l.Manager(name, "frozen")
	l.hand.Frozen(func() {
		l.Manager(name, "woken")
		_ = leader.Cmd.Process.Signal(syscall.SIGCONT)
	})
}

func (l *Lab) killAPIServer(ctx context.Context) error {
	l.StopJudging("while the API server is away some changes may be missed")
	if err := l.cluster.Disturb(ctx, "kill", cluster.APIServer); err != nil {
		return err
	}
	select {
	case <-time.After(3 * time.Second): // that it is away is what this is for
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
	components := []string{cluster.APIServer}
	if !cluster.OnKind() {
		components = append(components, cluster.Scheduler, cluster.Kwok) // how they get over it is not the question
	}
	for _, component := range components {
		if err := l.cluster.Disturb(ctx, "restart", component); err != nil {
			return fmt.Errorf("start %s anew: %w", component, err)
		}
	}
	l.Did("The API server is back")
	return nil
}
