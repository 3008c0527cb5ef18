package suites

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	modulePath   = "github.com/kcm-book/kcm-book/labs/upstream"
	kcmPath      = "github.com/kcm-book/kcm-book/kcm"
	upstreamPath = "k8s.io/kubernetes"
)

// suite is one of upstream's integration suites.
type suite struct {
	name string
	// runs are loops of kcm's that the suite runs, and replaces those of upstream's that it runs otherwise: the types that
	// have the method Run, as the linker names them, with spaces between.
	runs, replaces string
}

var suites = []suite{
	{"deployment", "deployment.(*Controller)", "deployment.(*DeploymentController)"},
	{"replicaset", "replication.(*Controller)", "replicaset.(*ReplicaSetController)"},
	{"replicationcontroller", "replication.(*Controller)", "replicaset.(*ReplicaSetController)"},
	{"serviceaccount", "serviceaccount.(*TokensController) legacytokencleaner.(*Controller)",
		"serviceaccount.(*TokensController) serviceaccount.(*LegacySATokenCleaner)"},
	{"garbagecollector", "garbagecollector.(*GarbageCollector)", "garbagecollector.(*GarbageCollector)"},
	{"namespace", "namespace.(*NamespaceController)", "namespace.(*NamespaceController)"},
	{"endpoints", "endpoint.(*Controller)", "endpoint.(*Controller)"},
	{"endpointslice", "endpointslice.(*Controller)", "endpointslice.(*Controller)"},
	{"quota", "resourcequota.(*Controller)", "resourcequota.(*Controller)"},
	{"daemonset", "daemon.(*Controller)", "daemon.(*DaemonSetsController)"},
	{"job", "job.(*Controller)", "job.(*Controller)"},
	{"cronjob", "cronjob.(*Controller)", "cronjob.(*ControllerV2)"},
	{"podgc", "podgc.(*Controller)", "podgc.(*PodGCController)"},
	{"node", "nodelifecycle.(*Controller)", "nodelifecycle.(*Controller)"},
	{"scheduler/taint", "nodelifecycle.(*Controller)", "nodelifecycle.(*Controller)"},
	{"ttlcontroller", "ttl.(*Controller)", "ttl.(*Controller)"},
	{"certificates", "certificates/approver.(*Controller) certificates/signer.(*Controller)",
		"certificates.(*CertificateController)"},
	{"clustertrustbundles", "trustbundle.(*Publisher)",
		"certificates/clustertrustbundlepublisher.(*ClusterTrustBundlePublisher)"},
	{"podcertificaterequests", "certificates/cleaner.(*Controller)", "certificates/cleaner.(*PCRCleanerController)"},
}

// about has, for suites most of whose tests are about the API server alone, those that are about a loop.
var about = map[string][]string{
	"certificates":           {"TestController_AutoApproval", "TestCSRDuration"},
	"clustertrustbundles":    {"TestClusterTrustBundlesPublisherController"},
	"podcertificaterequests": {"TestCleanerController"},
}

// change is one of kcm's text for a build: file is below kcm/controller.
type change struct{ file, before, after string }

// hurried are the times and limits of kcm's that upstream's suites set, which are constants in kcm. And metrics whose
// names upstream's package has, which is in the suites with its framework, cannot be registered again.
var hurried = []change{
	{"podgc/controller.go", "\tperiod = 20 * time.Second\n", "\tperiod = time.Second / 2\n"},
	{"podgc/controller.go", "\tquarantine = 40 * time.Second\n", "\tquarantine = time.Second\n"},
	{"job/backoff.go", "const (\n\tshortestPause", "var (\n\tshortestPause"},
	{"job/handlers.go", "const newsPeriod", "var newsPeriod"},
	{"nodelifecycle/metrics.go", "legacyregistry.MustRegister(zoneHealth, zoneSize, unhealthyNodes, evictions)",
		"_ = legacyregistry.Register(zoneHealth)"},
	{"job/plan.go", "const Burst", "var Burst"},
	{"legacytokencleaner/controller.go", "const interval = 24 * time.Hour\n", "const interval = 5 * time.Second\n"},
	{"certificates/cleaner/pcr.go", "const podRequestStays = 15 * time.Minute\n", "const podRequestStays = time.Second\n"},
}

// workshop is where suites are built and run.
type workshop struct {
	// root is that of the repository, upstream that of k8s.io/kubernetes in the module cache, and dir has what is made.
	root, upstream, dir string
	// changes of kcm are in what is built.
	changes []change
	// intended are the tests that kcm fails on purpose, and why.
	intended map[string]string
}

func newWorkshop(ctx context.Context, root string) (workshop, error) {
	w := workshop{root: root, dir: filepath.Join(root, "build", "upstream"), changes: hurried}
	if err := yaml.UnmarshalStrict(differences, &w.intended); err != nil {
		return w, fmt.Errorf("differences.yaml: %w", err)
	}
	if _, err := w.goTool(ctx, "mod", "download", upstreamPath); err != nil {
		return w, err
	}
	dir, err := w.goTool(ctx, "list", "-m", "-f", "{{.Dir}}", upstreamPath)
	w.upstream = strings.TrimSpace(dir)
	return w, err
}

// goTool runs go in this module and returns what it prints.
func (w workshop) goTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(w.root, "labs", "upstream")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &complaint)
	}
	return out.String(), nil
}

// tags let the shims see what only this build has.
const tags = "-tags=grpcnotrace,upstream"

// build compiles a suite, against kcm's loops or as upstream has it, and returns the program.
func (w workshop) build(ctx context.Context, s suite, manager string) (program string, err error) {
	program = filepath.Join(w.dir, "bin", filepath.Base(s.name)+"-"+manager+".test")
	// Upstream's suites find files by where their own source is, which -trimpath hides.
	args := []string{"test", "-c", "-vet=off", "-trimpath=false", tags, "-ldflags=-w", "-o", program}
	if manager == "original" {
		_, err = w.goTool(ctx, append(args, upstreamPath+"/test/integration/"+s.name)...)
		return program, err
	}
	overlay, err := w.overlay(s)
	if err != nil {
		return "", fmt.Errorf("prepare suite %s: %w", s.name, err)
	}
	if _, err := w.goTool(ctx, append(args, "-overlay="+overlay, modulePath+"/suites/"+s.name)...); err != nil {
		return "", err
	}
	return program, w.checkLoops(ctx, s, program)
}

// overlay writes what go build -overlay reads, and returns its path: the suite with other imports, and files of kcm's.
func (w workshop) overlay(s suite) (string, error) {
	replace := map[string]string{}
	for _, loop := range []string{"garbagecollector", "job", "legacytokencleaner"} {
		replace[w.kcm(loop+"/inside.go")] = filepath.Join(w.root, "labs", "upstream", "inside", loop+".go")
	}
	// A module of its own keeps what is written from the packages of the module around it.
	if _, err := w.write("go.mod", []byte("module made\n")); err != nil {
		return "", err
	}
	if err := w.changeKCM(replace); err != nil {
		return "", err
	}
	files, _ := filepath.Glob(filepath.Join(w.upstream, "test", "integration", s.name, "*.go")) // well-formed
	for _, file := range files {
		text, err := w.redirect(file)
		if err != nil {
			return "", err
		}
		path := filepath.Join("suites", s.name, filepath.Base(file))
		if replace[filepath.Join(w.root, "labs", "upstream", path)], err = w.write(path, text); err != nil {
			return "", err
		}
	}
	content, _ := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t") // it is JSON
	return w.write(filepath.Join("suites", s.name+".json"), content)
}

// kcm is the path of a file of kcm's loops.
func (w workshop) kcm(file string) string {
	return filepath.Join(w.root, "kcm", "controller", filepath.FromSlash(file))
}

// write writes a file in the workshop and returns its path.
func (w workshop) write(name string, content []byte) (string, error) {
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o644)
}

// changeKCM writes the files of kcm's that the changes concern, and adds them to what is replaced.
func (w workshop) changeKCM(replace map[string]string) error {
	for _, c := range w.changes {
		from := w.kcm(c.file)
		if replace[from] != "" {
			from = replace[from]
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if !bytes.Contains(content, []byte(c.before)) {
			return fmt.Errorf("kcm/controller/%s has no %q any more: mend the changes in labs/upstream/suites/build.go",
				c.file, c.before)
		}
		content = bytes.Replace(content, []byte(c.before), []byte(c.after), 1)
		if replace[w.kcm(c.file)], err = w.write(filepath.Join("kcm", c.file), content); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere are the shims of packages of upstream's that are not below pkg/controller.
var elsewhere = map[string]string{
	upstreamPath + "/pkg/serviceaccount":                      "signing", // kcm signs the tokens, too
	upstreamPath + "/cmd/kube-controller-manager/app/testing": "manager",
}

// ours returns what a suite gets in place of a package of upstream's that has a loop: a shim of this module, or kcm's
// where it is called alike. For all other packages it returns "".
func (w workshop) ours(imported string) string {
	if shim := elsewhere[imported]; shim != "" {
		return modulePath + "/shims/" + shim
	}
	loop, ok := strings.CutPrefix(imported, upstreamPath+"/pkg/controller/")
	if !ok {
		return ""
	}
	if _, err := os.Stat(filepath.Join(w.root, "labs", "upstream", "shims", filepath.FromSlash(loop))); err == nil {
		return modulePath + "/shims/" + loop
	}
	if _, err := os.Stat(w.kcm(loop)); err == nil {
		return kcmPath + "/controller/" + loop
	}
	return ""
}

var importOfUpstream = regexp.MustCompile(`"k8s\.io/kubernetes/[^"\n]+"`)

// redirect returns a file of upstream's that imports ours.
func (w workshop) redirect(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	return importOfUpstream.ReplaceAllFunc(text, func(imported []byte) []byte {
		if ours := w.ours(strings.Trim(string(imported), `"`)); ours != "" {
			return []byte(strconv.Quote(ours))
		}
		return imported
	}), err
}

// checkLoops is an error unless kcm's loops are in the program and upstream's are not: the linker keeps what is called.
func (w workshop) checkLoops(ctx context.Context, s suite, program string) error {
	symbols, err := w.goTool(ctx, "tool", "nm", program)
	if err != nil {
		return err
	}
	for _, loop := range strings.Fields(s.runs) {
		if !hasRun(symbols, kcmPath+"/controller/"+loop) {
			return fmt.Errorf("suite %s does not run kcm's loop: the program has no %s.Run", s.name, loop)
		}
	}
	for _, loop := range strings.Fields(s.replaces) {
		if hasRun(symbols, upstreamPath+"/pkg/controller/"+loop) {
			return fmt.Errorf("suite %s runs the original's loop besides kcm's: the program has %s.Run", s.name, loop)
		}
	}
	return nil
}

// hasRun tells whether a program has the method Run of a type, as in deployment.(*Controller), whatever its type
// arguments are.
func hasRun(symbols, receiver string) bool {
	name := regexp.QuoteMeta(strings.TrimSuffix(receiver, ")"))
	return regexp.MustCompile(" " + name + `(\[.*\])?\)\.Run\n`).MatchString(symbols)
}
