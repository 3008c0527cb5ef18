package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
	"github.com/kcm-book/kcm-book/labs/view"
	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// shop is the namespace in which `make view` has its Deployment, web.
const shop = "shop"

// viewed is a cluster that is shown, with a Deployment and two replicas of the manager.
type viewed struct {
	*view.Lab
	cluster *cluster.Cluster
	client  kubernetes.Interface
	manager *play.Manager
	started atomic.Int32
}

// playView shows two replicas of a manager until ctx ends.
func playView(ctx context.Context) error {
	port, err := strconv.Atoi(cmp.Or(os.Getenv("PORT"), "0"))
	if err != nil {
		return fmt.Errorf("PORT: %w", err)
	}
	narrator := newNarrator()
	v, end, err := newViewed(ctx, narrator, os.Getenv("REFERENCE") == "1")
	if err != nil {
		return err
	}
	defer end()
	if err := v.begin(ctx); err != nil {
		return err
	}
	return v.Serve(ctx, port, func(address string) {
		narrator.Say("To work in the cluster yourself: export KUBECONFIG=" + v.cluster.Kubeconfig(cluster.Admin))
		narrator.Say("The loops are at " + address)
		narrator.Say("Ctrl-C ends everything.")
	})
}

// newViewed starts a cluster, and shows it.
func newViewed(ctx context.Context, narrator play.Narrator, reference bool) (v *viewed, end func(), err error) {
	program, err := finished()
	if err != nil {
		return nil, nil, err
	}
	c, err := startCluster(ctx, narrator)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "view-")
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	watched, stop := context.WithCancel(ctx)
	v = &viewed{cluster: c}
	end = func() {
		if v.Lab != nil {
			v.Stop()
		}
		stop()
		if v.Lab != nil {
			v.Close()
		}
		_ = c.Close() // the supervisor ends with us in any case
		_ = os.RemoveAll(dir)
	}
	subject := map[bool]string{false: "kcm", true: "the original kube-controller-manager"}[reference]
	if v.manager, err = play.NewManager(ctx, c, reference, program); err == nil {
		v.client, err = kubernetes.NewForConfig(c.RESTConfig(cluster.Admin))
	}
	if err == nil {
		v.Lab, err = newLab(watched, c, reference, "The loops of "+subject, dir)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	v.StartAnother = v.start
	v.Deeds = append(v.workDeeds(), v.Deeds...)
	return v, end, nil
}

// newLab is view.NewLab with links into the book.
func newLab(ctx context.Context, c *cluster.Cluster, reference bool, title, dir string) (*view.Lab, error) {
	l, err := view.NewLab(ctx, c, reference, title, dir)
	if err != nil {
		return nil, err
	}
	if l.Book, err = declared(); err != nil {
		return nil, err
	}
	if pages, err := filepath.Abs(filepath.Join("build", "site")); err == nil {
		if _, err := os.Stat(filepath.Join(pages, "index.html")); err == nil {
			l.Pages = pages
		}
	}
	return l, nil
}

// explained is where the book declares what the steps of a loop are about: the package
// and the names as they stand in info strings.
var explained = map[string]map[string][2]string{
	"deployment-controller": {
		"observed": {"kcm/controller/deployment", "(*Controller).observe"},
		"decided":  {"kcm/controller/deployment", "decide"},
		"done":     {"kcm/controller/deployment", "(*Controller).act"},
	},
	"replicaset-controller":            ofReplication,
	"replicationcontroller-controller": ofReplication,
}

var ofReplication = map[string][2]string{
	"observed": {"kcm/controller/replication", "(*Controller).observe"},
	"decided":  {"kcm/controller/replication", "decide"},
	"done":     {"kcm/controller/replication", "(*Controller).act"},
}

// declared returns where the pages of the book declare what steps are about, by loop
// and step.
func declared() (map[string]map[string]string, error) {
	all, err := chapters.Read(".")
	if err != nil {
		return nil, err
	}
	book := map[string]map[string]string{}
	for loop, steps := range explained {
		retry := addressOf(all, "kcm/controller", "(*Loop).retry")
		book[loop] = map[string]string{"queue": retry, "error": retry, "waits": addressOf(all, "kcm/controller", "(*OwnWrites).Observed")}
		for step, what := range steps {
			if book[loop][step] = addressOf(all, what[0], what[1]); book[loop][step] == "" {
				return nil, fmt.Errorf("no chapter shows %s of %s, which the view links to", what[1], what[0])
			}
		}
	}
	return book, nil
}

// addressOf returns the page and the anchor of a declaration where the book shows it
// last.
func addressOf(all []*chapters.Chapter, dir, name string) (address string) {
	for _, chapter := range all {
		for _, block := range chapter.Blocks {
			if block.Package() == dir && slices.Contains(block.Names(), name) {
				anchor := filepath.Base(dir) + "." + strings.NewReplacer("(", "", "*", "", ")", "").Replace(name)
				address = block.Page().Web() + "#" + anchor
			}
		}
	}
	return address
}

// begin starts two replicas and a Deployment, and returns when that is rolled out.
func (v *viewed) begin(ctx context.Context) error {
	for range 2 {
		if err := v.start(); err != nil {
			return err
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}
	if _, err := v.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", shop, err)
	}
	if _, err := v.client.AppsV1().Deployments(shop).Create(ctx, newWeb(6), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the Deployment: %w", err)
	}
	return nil
}

// start starts one more replica.
func (v *viewed) start() error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	flags := slices.Concat([]string{
		"--secure-port=" + port, "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
	}, v.Flags())
	var loops []string
	if v.manager.Reference {
		loops = v.manager.Loops
	}
	p, err := v.manager.Start(loops, flags...)
	if err != nil {
		return err
	}
	v.Started(fmt.Sprintf("%s-%d", v.manager.Name, v.started.Add(1)), port, p)
	return nil
}

func newWeb(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	surge, unavailable := intstr.FromInt32(2), intstr.FromInt32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "web:1", Args: []string{"--ready-after=1s"},
					ReadinessProbe: &corev1.Probe{
						ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}},
						PeriodSeconds: 1, FailureThreshold: 10,
					},
				}}},
			},
		},
	}
}

// workDeeds give the loops something to do.
func (v *viewed) workDeeds() []view.Deed {
	return []view.Deed{
		{Name: "Roll out", Does: "Deployment web gets another image", Do: func(ctx context.Context) error {
			return v.change(ctx, func(d *appsv1.Deployment) {
				image := &d.Spec.Template.Spec.Containers[0].Image
				*image = map[string]string{"web:1": "web:2", "web:2": "web:3"}[*image]
				*image = cmp.Or(*image, "web:1")
			})
		}},
		{Name: "One pod more", Does: "Deployment web is scaled up by one", Do: func(ctx context.Context) error {
			return v.change(ctx, func(d *appsv1.Deployment) { *d.Spec.Replicas++ })
		}},
		{Name: "One pod fewer", Does: "Deployment web is scaled down by one", Do: func(ctx context.Context) error {
			return v.change(ctx, func(d *appsv1.Deployment) { *d.Spec.Replicas = max(*d.Spec.Replicas-1, 0) })
		}},
		{Name: "Delete a pod", Does: "somebody deletes a pod", Do: v.deletePod},
	}
}

func (v *viewed) change(ctx context.Context, change func(*appsv1.Deployment)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := v.client.AppsV1().Deployments(shop).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(d)
		_, err = v.client.AppsV1().Deployments(shop).Update(ctx, d, metav1.UpdateOptions{})
		return err
	})
}

func (v *viewed) deletePod(ctx context.Context) error {
	pods, err := v.client.CoreV1().Pods(shop).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return err
	}
	alive := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if len(alive) == 0 {
		return errors.New("there is no pod to delete")
	}
	err = v.client.CoreV1().Pods(shop).Delete(ctx, alive[0].Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// show has a page show what a script plays in a setting, until end is called. The
// script ends when somebody has had time to look, with Ctrl-C.
func show(ctx context.Context, s *play.Setting, reference bool, title string) (end func(), err error) {
	dir, err := os.MkdirTemp("", "view-")
	if err != nil {
		return nil, err
	}
	watched, stop := context.WithCancel(ctx)
	l, err := newLab(watched, s.Cluster, reference, title, dir)
	if err != nil {
		stop()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	port, err := strconv.Atoi(cmp.Or(os.Getenv("PORT"), "0"))
	if err != nil {
		stop()
		return nil, fmt.Errorf("PORT: %w", err)
	}
	addresses := make(chan string, 1)
	failed := make(chan error, 1)
	go func() { failed <- l.Serve(watched, port, func(address string) { addresses <- address }) }()
	select {
	case address := <-addresses:
		s.Narrator.Say("The loops are at " + address)
	case err := <-failed:
		stop()
		return nil, err
	}
	s.Spectator, s.Keep = l, true
	s.Narrator = stepsToo{s.Narrator, l.View}
	return func() {
		stop()
		l.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// stepsToo tells a view of the steps of a script.
type stepsToo struct {
	play.Narrator
	view *view.View
}

// Step begins a step when the narrator does.
func (s stepsToo) Step(ctx context.Context, number int, sentence string) error {
	err := s.Narrator.Step(ctx, number, sentence)
	s.view.Did(fmt.Sprintf("Step %d: %s", number, sentence))
	return err
}
