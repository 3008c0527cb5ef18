package odd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/canary"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
)

// What an attack may cost others, and what it gets.
const (
	// Delay is how much longer than in a quiet cluster a canary may take.
	Delay = 2 * time.Second
	// MemoryBase and MemoryPerByte bound by how much the manager grows: by so
	// much in any case, and by so many bytes for each that the attacker has stored.
	MemoryBase, MemoryPerByte = 50 << 20, 10

	writes  = 25 * time.Second // how long an attacker writes
	patient = 15 * time.Second // how long a canary may go on after that
)

// Damage is what an attack has cost others with one manager.
type Damage struct {
	Attack  Attack
	Manager string
	Felt    []Felt
	// Sent are the attacker's requests, Refused those that the API server has not
	// taken, Why says what it said last, and Stored counts the bytes of the others.
	Sent, Refused, Stored int64
	Why                   string
	// Grown is by how many bytes the manager's memory grew at its peak, and CPU how
	// many seconds it has worked.
	Grown int64
	CPU   float64
	// Ended says that the manager is not there any more.
	Ended bool
}

// Felt is how long the work of a canary took, try by try.
type Felt struct {
	canary.Canary
	Quiet, Attacked []time.Duration
	Stuck           bool // the last one had not ended when the attack was over
}

// Excess is by how much the slowest try under attack was slower than the slowest
// in a quiet cluster, or than the loop's period.
func (f Felt) Excess() time.Duration {
	if len(f.Attacked) == 0 {
		return 0
	}
	return slices.Max(f.Attacked) - max(f.Period, slices.Max(append(f.Quiet, 0)))
}

// Worst is the canary that was delayed most: one of a loop that the attack
// concerns, or another one if that was delayed too much.
func (d Damage) Worst() Felt {
	concerned := slices.DeleteFunc(slices.Clone(d.Felt), func(f Felt) bool {
		return f.Excess() <= Delay && !slices.Contains(d.Attack.Loops, f.Loop)
	})
	return slices.MaxFunc(concerned, func(a, b Felt) int { return cmp.Compare(a.Excess(), b.Excess()) })
}

// Wrong says what is over its bound.
func (d Damage) Wrong() (all []string) {
	if d.Ended {
		all = append(all, "it has ended")
	}
	if d.Stored == 0 {
		all = append(all, "the API server has refused it all, so it was no attack: "+d.Why)
	}
	for _, f := range d.Felt {
		if f.Excess() > Delay {
			all = append(all, fmt.Sprintf("%s: %s", f.Does, f))
		}
	}
	if bound := MemoryBase + MemoryPerByte*d.Stored; d.Grown > bound {
		all = append(all, fmt.Sprintf("it grew by %d MiB, and may by %d", d.Grown>>20, bound>>20))
	}
	return all
}

func (f Felt) String() string {
	quiet, stuck := fmt.Sprintf("%.1f", median(f.Quiet)), ""
	if f.Period > 0 {
		quiet = fmt.Sprintf("up to %.0f", f.Period.Seconds())
	}
	if f.Stuck {
		stuck = "> "
	}
	slowest := slices.Max(append(f.Attacked, 0))
	return fmt.Sprintf("%s → %.1f, %s%.1f s", quiet, median(f.Attacked), stuck, slowest.Seconds())
}

// median is zero of none.
func median(of []time.Duration) float64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2].Seconds()
}

// Suffer starts a cluster with kcm, which is a program, or with the original, and
// measures what an attack costs there.
func Suffer(ctx context.Context, attack Attack, program string, reference bool) (d *Damage, err error) {
	c, err := cluster.StartEmbedded(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m, err := play.NewManager(ctx, c, reference, program)
	if err != nil {
		return nil, err
	}
	p, err := m.Start(m.Loops, "--leader-elect=false", "--secure-port=0")
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	s := &sufferer{client: dynamic.NewForConfigOrDie(quietly(c)), damage: &Damage{Attack: attack, Manager: m.Name}}
	if err := s.quiet(ctx, m.Loops); err != nil {
		return nil, fmt.Errorf("in a quiet cluster: %w", err)
	}
	a, err := newAttacker(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("the attacker: %w", err)
	}
	if err := s.attacked(ctx, a, p); err != nil {
		return nil, err
	}
	s.damage.Sent, s.damage.Refused, s.damage.Stored = a.sent.Load(), a.refused.Load(), a.stored.Load()
	s.damage.Why, _ = a.why.Load().(string)
	return s.damage, nil
}

func quietly(c *cluster.Cluster) *rest.Config {
	config := c.RESTConfig(cluster.Admin)
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// sufferer measures with canaries.
type sufferer struct {
	client dynamic.Interface
	damage *Damage
}

// quiet tries the canaries of those loops that nothing disturbs.
func (s *sufferer) quiet(ctx context.Context, loops []string) error {
	for _, c := range canary.All {
		if slices.Contains(loops, c.Loop) {
			s.damage.Felt = append(s.damage.Felt, Felt{Canary: c})
		}
	}
	errs := make([]error, len(s.damage.Felt))
	var all sync.WaitGroup
	for i := range s.damage.Felt {
		all.Go(func() {
			f := &s.damage.Felt[i]
			if f.Period > 0 {
				return // it is as long as that
			}
			for range 4 {
				took, err := f.Try(ctx, s.client, fmt.Sprint("neighbour-", i))
				f.Quiet, errs[i] = append(f.Quiet, took), cmp.Or(errs[i], err)
			}
			f.Quiet = f.Quiet[1:] // the first has waited for the manager to start
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// attacked tries them under attack: those that it concerns all the time, and the
// others in turn.
func (s *sufferer) attacked(ctx context.Context, a *attacker, p *process.Process) error {
	writing, stop := context.WithTimeout(ctx, cmp.Or(s.damage.Attack.Lasts, writes))
	defer stop()
	before, err := usageOf(p)
	if err != nil {
		return err
	}
	// From here on the kernel counts the peak anew.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.Cmd.Process.Pid), []byte("5"), 0); err != nil {
		return err
	}
	a.ctx = writing
	var all sync.WaitGroup
	all.Go(func() { s.damage.Attack.do(a) })
	var others []int
	for i, f := range s.damage.Felt {
		if f.Period > 0 || slices.Contains(s.damage.Attack.Loops, f.Loop) {
			all.Go(func() { s.try(ctx, writing, i) })
		} else {
			others = append(others, i)
		}
	}
	all.Go(func() { s.try(ctx, writing, others...) })
	all.Wait()
	if s.damage.Ended = !p.Running(); s.damage.Ended {
		return ctx.Err()
	}
	after, err := usageOf(p)
	s.damage.Grown, s.damage.CPU = int64(after.peak-before.resident), after.cpu-before.cpu
	return errors.Join(err, ctx.Err())
}

// try tries canaries one after the other while the attacker writes.
func (s *sufferer) try(ctx, writing context.Context, canaries ...int) {
	deadline, _ := writing.Deadline()
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(patient+s.damage.Felt[canaries[0]].Period))
	defer cancel()
	for n := 0; writing.Err() == nil; n++ {
		i := canaries[n%len(canaries)]
		f := &s.damage.Felt[i]
		if f.Period > 0 && n > 0 && !slices.Contains(s.damage.Attack.Loops, f.Loop) {
			return
		}
		begin := time.Now()
		took, err := f.Try(ctx, s.client, fmt.Sprint("neighbour-", i))
		if err != nil {
			took, f.Stuck = time.Since(begin), true
		}
		f.Attacked = append(f.Attacked, took)
		select {
		case <-time.After(500 * time.Millisecond):
		case <-writing.Done():
		}
	}
}

// usage is what a process has taken of the machine.
type usage struct {
	resident, peak uint64
	cpu            float64
}

func usageOf(p *process.Process) (usage, error) {
	of, err := procfs.NewProc(p.Cmd.Process.Pid)
	if err != nil {
		return usage{}, err
	}
	stat, err := of.Stat()
	if err != nil {
		return usage{}, err
	}
	status, err := of.NewStatus()
	return usage{status.VmRSS, status.VmHWM, stat.CPUTime()}, err
}

const attackers = "attacker" // the attacker's namespace

// attacker sends requests as a ServiceAccount that has the rights of edit in one
// namespace, and counts what the API server takes.
type attacker struct {
	ctx                   context.Context
	admin                 kubernetes.Interface // what it gets others to do
	client                *http.Client
	server                string
	sent, refused, stored atomic.Int64
	why                   atomic.Value
}

// newAttacker gives an account the rights of edit. That ClusterRole is the sum of
// two others; the loop that adds them up is none of kcm's, so it is bound to these.
func newAttacker(ctx context.Context, c *cluster.Cluster) (*attacker, error) {
	admin := kubernetes.NewForConfigOrDie(quietly(c))
	name := metav1.ObjectMeta{Name: attackers}
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: name}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	accounts := admin.CoreV1().ServiceAccounts(attackers)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for _, role := range []string{"edit", "system:aggregate-to-edit", "system:aggregate-to-view"} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: attackers, Namespace: attackers}},
		}
		if _, err := admin.RbacV1().RoleBindings(attackers).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	token, err := accounts.CreateToken(ctx, attackers, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(c.RESTConfig(cluster.Admin))
	config.BearerToken = token.Status.Token
	client, err := rest.HTTPClientFor(config)
	return &attacker{admin: admin, client: client, server: c.Server()}, err
}

// many does something so often, and as often at the same time as an attacker with
// a few connections.
func (a *attacker) many(n int, do func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		if a.ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
}

// until does something again and again, so often a second, until the time is over.
func (a *attacker) until(perSecond int, do func(i int)) {
	every := time.NewTicker(time.Second / time.Duration(perSecond))
	defer every.Stop()
	for i := 0; ; i++ {
		select {
		case <-a.ctx.Done():
			return
		case <-every.C:
			do(i)
		}
	}
}

// create creates an object of a resource, such as "apps/v1/deployments".
func (a *attacker) create(resource, name string, o manifest) {
	meta, _ := o["metadata"].(manifest)
	if meta == nil {
		meta = manifest{}
		o["metadata"] = meta
	}
	meta["name"] = name
	body, _ := json.Marshal(o) // it is made of maps and strings
	a.send(http.MethodPost, resource, "", "application/json", body)
}

// patch changes fields of an object, or of its status.
func (a *attacker) patch(resource, name, merge string) {
	a.send(http.MethodPatch, resource, "/"+name, "application/merge-patch+json", []byte(merge))
}

// remove deletes an object, or all of the resource.
func (a *attacker) remove(resource, name string, options manifest) {
	body, _ := json.Marshal(options)
	if name != "" {
		name = "/" + name
	}
	a.send(http.MethodDelete, resource, name, "application/json", body)
}

func (a *attacker) send(method, resource, rest, contentType string, body []byte) {
	root := "/api/v1"
	if i := strings.LastIndex(resource, "/"); i >= 0 {
		root, resource = "/apis/"+resource[:i], resource[i+1:]
	}
	url := fmt.Sprintf("%s%s/namespaces/%s/%s%s", a.server, root, attackers, resource, rest)
	r, err := http.NewRequestWithContext(a.ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", contentType)
	answer, err := a.client.Do(r)
	if err != nil {
		a.why.Store(err.Error()) // most likely the time is over
		return
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	a.sent.Add(1)
	switch {
	case answer.StatusCode >= http.StatusBadRequest:
		a.refused.Add(1)
		a.why.Store(string(said))
	case method == http.MethodPost:
		a.stored.Add(int64(len(said)))
	}
}
