package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/history"
)

// verbs are the commands of scenarios beside testscript's own.
var verbs = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"create":   verb((*scenario).create, 1, 2),
	"patch":    verb((*scenario).patch, 2, 3),
	"delete":   verb((*scenario).delete, 1, 2),
	"kubectl":  kubectl,
	"retry":    retry,
	"let":      verb((*scenario).let, 2, 3),
	"await":    verb((*scenario).await, 1, 2),
	"settle":   verb((*scenario).settle, 0, 1),
	"event":    verb((*scenario).event, 5, 6),
	"always":   verb((*scenario).always, 1, 1),
	"never":    verb((*scenario).never, 1, 1),
	"sequence": verb((*scenario).sequence, 2, 40),
	"before":   verb((*scenario).before, 2, 2),
	"mark":     verb((*scenario).setMark, 0, 0),
	"start":    verb((*scenario).start, 1, 20),
	"signal":   verb((*scenario).signal, 2, 2),
	"log":      verb((*scenario).waitForLog, 2, 2),
	"get":      verb((*scenario).get, 3, 5),
	"exits":    verb((*scenario).exits, 2, 2),
}

// verb makes a testscript command of a method that takes from least to most
// arguments. Its error fails the script at its line.
func verb(do func(*scenario, *testscript.TestScript, []string) error, least, most int) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this verb cannot be negated")
		}
		if len(args) < least || len(args) > most {
			ts.Fatalf("this verb takes %d to %d arguments, got %q; go doc ./labs/scenarios lists the verbs", least, most, args)
		}
		if err := do(of(ts), ts, args); err != nil {
			ts.Fatalf("%v", err)
		}
	}
}

func (s *scenario) create(ts *testscript.TestScript, args []string) error {
	overlay := ""
	if len(args) == 2 {
		overlay = args[1]
	}
	for document := range strings.SplitSeq(readManifest(ts, args[0]), "\n---\n") {
		object, err := parseManifest(document, overlay)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		resource, known := kindOf[strings.ToLower(object.GetKind())]
		if !known {
			return fmt.Errorf("%s: scenarios know no kind %q", args[0], object.GetKind())
		}
		if _, err := s.api(resource).Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// readManifest reads a file of the scenario's, or one that all share.
func readManifest(ts *testscript.TestScript, name string) string {
	own := ts.MkAbs(name)
	if _, err := os.Stat(own); err == nil {
		return ts.ReadFile(own)
	}
	shared, err := filepath.Abs(filepath.Join("manifests", name))
	ts.Check(err)
	return ts.ReadFile(shared)
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
	change, err := yaml.YAMLToJSONStrict([]byte(overlay))
	if err != nil {
		return nil, fmt.Errorf("overlay %s: %w", overlay, err)
	}
	if content, err = strategicpatch.StrategicMergePatch(content, change, typed); err != nil {
		return nil, fmt.Errorf("overlay %s: %w", overlay, err)
	}
	return object, object.UnmarshalJSON(content)
}

func (s *scenario) patch(_ *testscript.TestScript, args []string) error {
	var subresources []string
	if args[0] == "--status" {
		args, subresources = args[1:], []string{"status"}
	}
	o, name, err := s.locate(args[0])
	if err != nil {
		return err
	}
	change, err := yaml.YAMLToJSONStrict([]byte(args[1]))
	if err != nil {
		return fmt.Errorf("overlay %s: %w", args[1], err)
	}
	_, err = s.api(o.resource).Patch(context.Background(), name, types.StrategicMergePatchType, change, metav1.PatchOptions{}, subresources...)
	return err
}

func (s *scenario) delete(_ *testscript.TestScript, args []string) error {
	propagation := metav1.DeletePropagationBackground
	if how, found := strings.CutPrefix(args[0], "--cascade="); found {
		propagation, args = metav1.DeletionPropagation(strings.ToUpper(how[:1])+how[1:]), args[1:]
	}
	o, name, err := s.locate(args[0])
	if err != nil {
		return err
	}
	return s.api(o.resource).Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &propagation})
}

// locate parses an OBJECT and finds its name.
func (s *scenario) locate(argument string) (operand, string, error) {
	o, err := parseOperand(argument)
	if err != nil {
		return o, "", err
	}
	name, err := s.resolve(o)
	return o, name, err
}

// kubectl is the verb that can be negated: some of what users ask is refused.
func kubectl(ts *testscript.TestScript, neg bool, args []string) {
	err := of(ts).kubectl(ts, args)
	var refused *exec.ExitError
	switch {
	case err != nil && !(neg && errors.As(err, &refused)):
		ts.Fatalf("%v", err)
	case err == nil && neg:
		ts.Fatalf("kubectl has succeeded")
	}
}

// retry runs kubectl until it is answered as it should be. What an API server
// admits, it reads from caches that follow after a moment.
func retry(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	ts.Check(s.poll("kubectl is answered otherwise", func(history.State) (bool, error) {
		err := s.kubectl(ts, args)
		var refused *exec.ExitError
		return neg == errors.As(err, &refused), err
	}))
}

func (s *scenario) kubectl(ts *testscript.TestScript, args []string) error {
	binary, err := cluster.Binary(context.Background(), ts.Stderr())
	if err != nil {
		return err
	}
	args = append([]string{"kubectl", "--kubeconfig=" + lab.Kubeconfig(cluster.Admin), "--namespace=" + s.namespace}, args...)
	cmd := exec.Command(binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	fmt.Fprint(ts.Stdout(), stdout.String())
	fmt.Fprint(ts.Stderr(), stderr.String())
	if err != nil {
		return fmt.Errorf("kubectl: %w: %s", err, stderr.String())
	}
	return nil
}

func (s *scenario) let(_ *testscript.TestScript, args []string) error {
	seen, err := s.parseQuestion(args[1:])
	if err != nil {
		return err
	}
	now, err := s.now()
	if err != nil {
		return err
	}
	value, err := seen.ask(s, now)
	if err != nil {
		return err
	}
	s.vars[args[0]] = value
	return nil
}
