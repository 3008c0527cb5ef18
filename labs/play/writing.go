package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/await"
	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

func (p *Play) create(c *call) error {
	content, err := p.readManifest(c.args[0])
	if err != nil {
		return err
	}
	overlay := ""
	if len(c.args) == 2 {
		overlay = c.args[1]
	}
	for document := range strings.SplitSeq(content, "\n---\n") {
		object, err := parseManifest(document, overlay)
		if err != nil {
			return fmt.Errorf("%s: %w", c.args[0], err)
		}
		resource, known := kindOf[strings.ToLower(object.GetKind())]
		if !known {
			return fmt.Errorf("%s: scripts know no kind %q", c.args[0], object.GetKind())
		}
		if _, err := p.api(resource).Create(p.ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// readManifest reads a file of the script's, or one of those that it may use.
func (p *Play) readManifest(name string) (string, error) {
	for _, dir := range append([]string{p.work}, p.Manifests...) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if !errors.Is(err, os.ErrNotExist) {
			return string(content), err
		}
	}
	return "", fmt.Errorf("there is no file %s", name)
}

func parseManifest(document, overlay string) (*unstructured.Unstructured, error) {
	content, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil || overlay == "" {
		return object, err
	}
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	change, err := overlayed(overlay)
	if err != nil {
		return nil, err
	}
	if content, err = strategicpatch.StrategicMergePatch(content, change, typed); err != nil {
		return nil, fmt.Errorf("overlay %s: %w", overlay, err)
	}
	return object, object.UnmarshalJSON(content)
}

// overlayed is an OVERLAY as JSON.
func overlayed(overlay string) ([]byte, error) {
	change, err := yaml.YAMLToJSONStrict([]byte(overlay))
	if err != nil {
		return nil, fmt.Errorf("overlay %s: %w", overlay, err)
	}
	return change, nil
}

func (p *Play) patch(c *call) error {
	args, subresources := c.args, []string(nil)
	if args[0] == "--status" {
		args, subresources = args[1:], []string{"status"}
	}
	o, name, err := p.locate(args[0])
	if err != nil {
		return err
	}
	change, err := overlayed(args[1])
	if err != nil {
		return err
	}
	_, err = p.api(o.resource).Patch(p.ctx, name, types.StrategicMergePatchType, change, metav1.PatchOptions{}, subresources...)
	return err
}

func (p *Play) delete(c *call) error {
	args, propagation := c.args, metav1.DeletePropagationBackground
	if len(args) == 2 {
		var err error
		if propagation, err = cascade(args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	o, name, err := p.locate(args[0])
	if err != nil {
		return err
	}
	return p.api(o.resource).Delete(p.ctx, name, metav1.DeleteOptions{PropagationPolicy: &propagation})
}

func cascade(flag string) (metav1.DeletionPropagation, error) {
	switch how := strings.TrimPrefix(flag, "--cascade="); how {
	case "orphan":
		return metav1.DeletePropagationOrphan, nil
	case "background":
		return metav1.DeletePropagationBackground, nil
	case "foreground":
		return metav1.DeletePropagationForeground, nil
	default:
		return "", fmt.Errorf("%s: write --cascade=orphan, background or foreground", flag)
	}
}

// repeatable tells which verbs may follow repeat and meanwhile.
func repeatable(outer, inner string) error {
	can := []string{"create", "patch", "delete", "get"}
	if outer == "meanwhile" {
		can = append(can, "repeat")
	}
	if !slices.Contains(can, inner) {
		return fmt.Errorf("%s cannot be followed by %s, but by %s", outer, inner, strings.Join(can, ", "))
	}
	return nil
}

// nested is the line that the arguments from the verb on are.
func (p *Play) nested(c *call, args []string) (func() error, error) {
	v := verbNamed(args[0])
	if v == nil {
		return nil, unknownVerb(args[0])
	}
	do := func() error { return v.do(p, &call{TestScript: c.TestScript, args: args[1:], meanwhile: c.meanwhile}) }
	if !c.meanwhile || v.name == "repeat" {
		return do, nil
	}
	return func() error {
		return await.Until(p.ctx, 20*time.Millisecond, p.Patience, "it is done meanwhile: "+spell(v.name, false, args[1:]), func(context.Context) error {
			err := do()
			if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				if apierrors.IsAlreadyExists(err) {
					return nil // the answer to the one before was lost
				}
				return await.Fatal(err)
			}
			return err
		})
	}, nil
}

func count(arg string) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a number of at least 1", arg)
	}
	return n, nil
}

func interval(flag string) (time.Duration, error) {
	every, err := time.ParseDuration(strings.TrimPrefix(flag, "--every="))
	if err != nil {
		return 0, fmt.Errorf("%s: write --every=DURATION, such as 100ms or 2s", flag)
	}
	return every, nil
}

func (p *Play) repeat(c *call) error {
	args, every := c.args, time.Duration(0)
	var err error
	if strings.HasPrefix(args[0], "--every") {
		if every, err = interval(args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	times, err := count(args[0])
	if err != nil {
		return err
	}
	for n := 1; n <= times; n++ {
		var numbered []string
		for _, arg := range args[1:] {
			numbered = append(numbered, strings.ReplaceAll(arg, "{n}", strconv.Itoa(n)))
		}
		do, err := p.nested(c, numbered)
		if err != nil {
			return err
		}
		if err := do(); err != nil {
			return fmt.Errorf("time %d of %d: %w", n, times, err)
		}
		if n < times && wait.PollUntilContextTimeout(p.ctx, every, time.Hour, false, func(context.Context) (bool, error) { return true, nil }) != nil {
			return errInterrupted
		}
	}
	return nil
}

// meanwhile does what a script cannot go on without waiting for. While the API
// server is away it tries again: whoever uses a cluster would.
func (p *Play) meanwhile(c *call) error {
	c.meanwhile = true
	do, err := p.aside().nested(c, c.args)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	p.meanwhiles = append(p.meanwhiles, done)
	go func() {
		err := do()
		if err != nil {
			err = fmt.Errorf("%s: %w", spell("meanwhile", false, c.args), err)
		}
		done <- err
	}()
	return nil
}

// join waits for what was done meanwhile.
func (p *Play) join() error {
	var errs []error
	for _, done := range p.meanwhiles {
		errs = append(errs, <-done)
	}
	p.meanwhiles = nil
	return errors.Join(errs...)
}

func (p *Play) kubectl(c *call) error {
	p.Narrator.Say("$ kubectl " + shellescape.QuoteCommand(p.ownNamespace(c.args)))
	said, err := p.runKubectl(c)
	p.Narrator.Say(said)
	var refused *exec.ExitError
	switch {
	case err == nil && c.not:
		return errors.New("kubectl has succeeded")
	case c.not && errors.As(err, &refused):
		return nil
	}
	return err
}

// retry runs kubectl until it is answered as it should be. What an API server
// admits, it reads from caches that follow after a moment.
func (p *Play) retry(c *call) error {
	what := spell("kubectl", false, c.args) + " succeeds"
	if c.not {
		what = spell("kubectl", false, c.args) + " fails"
	}
	return p.poll(what, func(history.State) (bool, error) {
		_, err := p.runKubectl(c)
		var refused *exec.ExitError
		return c.not == errors.As(err, &refused), err
	})
}

// ownNamespace adds the namespace in which the script looks to the arguments of
// kubectl.
func (p *Play) ownNamespace(args []string) []string {
	names := func(arg string) bool {
		return arg == "-n" || arg == "-A" || arg == "--all-namespaces" || strings.HasPrefix(arg, "--namespace")
	}
	if p.namespace == "" || p.namespace == metav1.NamespaceDefault || slices.ContainsFunc(args, names) {
		return args
	}
	return append(args[:len(args):len(args)], "-n", p.namespace)
}

// runKubectl runs kubectl and returns all that it has printed.
func (p *Play) runKubectl(c *call) (string, error) {
	binary, err := cluster.Binary(p.ctx, c.Stderr())
	if err != nil {
		return "", err
	}
	args := append([]string{"kubectl", "--kubeconfig=" + p.Cluster.Kubeconfig(cluster.Admin)}, p.ownNamespace(c.args)...)
	ctx, cancel := context.WithTimeout(p.ctx, p.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = p.Dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	fmt.Fprint(c.Stdout(), stdout.String())
	fmt.Fprint(c.Stderr(), stderr.String())
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("kubectl has not ended by itself in %v", p.Patience)
	case err != nil:
		err = fmt.Errorf("kubectl: %w: %s", err, stderr.String())
	}
	return stdout.String() + stderr.String(), err
}
