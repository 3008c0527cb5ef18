package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// Lab is one run of a lab.
type Lab struct {
	// Cluster is the lab's own. It is nil where the lab needs none.
	Cluster *cluster.Cluster
	// Client and Dynamic may do everything there.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// KCM is the path of the stage's kcm.
	KCM string

	t         *testing.T
	ctx       context.Context
	cancel    context.CancelFunc
	chapter   int
	root      string
	logs      string
	narrator  *narrator
	steps     int
	processes []*Process
}

// Reference tells whether the lab runs on the original kube-controller-manager.
func Reference() bool { return os.Getenv("REFERENCE") == "1" }

// interrupted ends when the lab is told to stop, by Ctrl-C for example.
var interrupted context.Context

// Main runs the test of a lab. TestMain calls it.
func Main(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // what client-go says of watches that break off says nothing about the lab
	ctx, cancel := context.WithCancel(context.Background())
	interrupted = ctx
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		fmt.Fprintln(os.Stderr, "\ninterrupted: ending what the lab has started")
		signal.Stop(signals) // a second signal ends the lab at once
	}()
	os.Exit(m.Run())
}

// New prepares the lab of a chapter: its stage, built, and a cluster.
func New(t *testing.T, chapter int) *Lab {
	t.Helper()
	l := WithoutCluster(t, chapter)
	if os.Getenv("KUBECONFIG") != "" {
		l.narrator.say("KUBECONFIG names a cluster of yours. The lab leaves it alone and starts its own.")
	}
	begin := time.Now()
	c, err := cluster.Start(interrupted, cluster.WithProgress(l.narrator))
	l.stopOn(err, "start a lab cluster")
	l.Cluster = c
	l.Client, err = kubernetes.NewForConfig(c.RESTConfig(cluster.Admin))
	require.NoError(t, err)
	l.Dynamic, err = dynamic.NewForConfig(c.RESTConfig(cluster.Admin))
	require.NoError(t, err)
	l.narrator.say("a cluster is up at %s (%.1f s)", c.Server(), time.Since(begin).Seconds())
	return l
}

// WithoutCluster prepares the lab of a chapter whose kcm runs by itself.
func WithoutCluster(t *testing.T, chapter int) *Lab {
	t.Helper()
	root, err := cluster.Root()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(interrupted)
	l := &Lab{t: t, ctx: ctx, cancel: cancel, chapter: chapter, root: root, narrator: newNarrator(t)}
	l.logs = filepath.Join(root, "build", "labs", fmt.Sprintf("%02d", chapter))
	require.NoError(t, os.MkdirAll(l.logs, 0o755))
	subject := fmt.Sprintf("kcm of stage %02d", chapter)
	switch {
	case Reference() && inCluster():
		t.Fatal("REFERENCE=1 and PLACE=static-pod: kubeadm runs the original as a static pod by itself; choose one of the two")
	case inCluster() && !cluster.OnKind():
		t.Fatal("PLACE=static-pod needs a kubelet: set CLUSTER=kind, too")
	case inCluster():
		subject += " as a static pod"
	case Reference():
		subject = "the original kube-controller-manager"
	}
	if place := os.Getenv("PLACE"); place != "" && !inCluster() {
		t.Fatalf("PLACE is %q: set it to static-pod, or to nothing", place)
	}
	l.narrator.title("Lab %02d, with %s", chapter, subject)
	l.buildStage()
	t.Cleanup(l.end)
	return l
}

// buildStage builds the chapter's kcm as a reader does.
func (l *Lab) buildStage() {
	l.t.Helper()
	stage := fmt.Sprintf("stage-%02d", l.chapter)
	l.KCM = filepath.Join(l.root, "build", stage, "bin", "kcm")
	unlock, err := cluster.Lock(filepath.Join(l.root, "build", ".stage.lock"))
	require.NoError(l.t, err)
	defer unlock()
	cmd := exec.CommandContext(l.ctx, "make", "--no-print-directory", "-C", l.root, stage)
	out, err := cmd.CombinedOutput()
	l.stopOn(err, "build the code of chapter %02d:\n%s", l.chapter, out)
	l.narrator.say("%s", strings.TrimSpace(string(out)))
}

// stopOn ends the lab if there is an error. An interruption needs no more words.
func (l *Lab) stopOn(err error, doing string, args ...any) {
	l.t.Helper()
	switch {
	case l.ctx.Err() != nil:
		l.t.FailNow()
	case err != nil:
		l.t.Fatalf("%s: %v", fmt.Sprintf(doing, args...), err)
	}
}

// end leaves everything up if that was asked for, and then ends it: what talks
// to the cluster first.
func (l *Lab) end() {
	if os.Getenv("KEEP") != "" && l.ctx.Err() == nil {
		l.keep()
	}
	l.cancel()
	for _, p := range l.processes {
		p.Kill()
	}
	if l.Cluster != nil {
		require.NoError(l.t, l.Cluster.Close(), "end the lab cluster")
	}
}

// keep says how to look around, and waits for Ctrl-C.
func (l *Lab) keep() {
	l.narrator.title("Everything stays up until Ctrl-C.")
	if l.Cluster != nil {
		l.narrator.say("export KUBECONFIG=%s", l.Cluster.Kubeconfig(cluster.Admin))
		l.narrator.say("export PATH=%s:$PATH    # for kubectl of the cluster's version", filepath.Join(l.root, "scripts", "shell"))
		l.narrator.say("the audit log is %s", l.Cluster.AuditLog())
	}
	for _, p := range l.processes {
		switch {
		case p.pod != nil:
			l.narrator.say("%s is pod %s in kube-system", p.Name, p.pod.Name)
		case p.running():
			l.narrator.say("%s is process %d, its log is %s", p.Name, p.process.Cmd.Process.Pid, p.LogFile)
		}
	}
	<-l.ctx.Done()
}

// Step runs one step of the lab. Its name is a sentence about what it shows.
// After a step that has failed no other runs.
func (l *Lab) Step(name string, run func(*Step)) {
	l.t.Helper()
	if l.t.Failed() {
		return
	}
	l.steps++
	l.narrator.step(l.steps, name)
	if os.Getenv("STEP") != "" {
		l.narrator.waitForEnter(l.ctx)
	}
	begin := time.Now()
	skipped := ""
	passed := l.t.Run(name, func(t *testing.T) {
		s := &Step{T: t, lab: l}
		defer func() { skipped = s.skipped }()
		if l.ctx.Err() != nil {
			t.FailNow()
		}
		run(s)
	})
	switch {
	case skipped != "":
		l.narrator.skipped(skipped)
	case passed:
		l.narrator.done(time.Since(begin))
	default:
		l.narrator.failed(time.Since(begin))
	}
}
