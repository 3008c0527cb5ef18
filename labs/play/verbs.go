package play

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// verb is a word of the language.
type verb struct {
	name string
	// usage names its arguments. What is in brackets may be left out, and what ends in ... may be there several times, or
	// not at all. The names in capital letters say what an argument is, and [kinds] can check it.
	usage string
	do    func(*Play, *call) error
	// negatable verbs may have a ! before them.
	negatable bool
	// tells is how much a narrator says of it.
	tells telling
	// means says what the verb does.
	means string
}

type telling int

const (
	itself  telling = iota // the line, and how long it took
	nothing                // of what prepares a question
	more                   // the verb does it in its own words
)

// call is a line of a script that is carried out.
type call struct {
	*testscript.TestScript
	not  bool // there is a ! before the verb
	args []string
	// means are the arguments as kinds read them, by the names that the verb's usage gives them.
	means map[string][]any
	// meanwhile tells that it is carried out beside other lines.
	meanwhile bool
}

func (v *verb) called(ts *testscript.TestScript, not bool, args []string) (*call, error) {
	found, err := v.check(not, args)
	if err != nil {
		return nil, err
	}
	c := &call{TestScript: ts, not: not, args: args, means: map[string][]any{}}
	for i, p := range found {
		value, err := p.read(args[i])
		if err != nil {
			return nil, err
		}
		c.means[p.kind] = append(c.means[p.kind], value)
	}
	return c, nil
}

// argument is the first argument of a name, or the zero value if it was left out.
func argument[T any](c *call, name string) (value T) {
	if c.has(name) {
		value = c.means[name][0].(T)
	}
	return value
}

func (c *call) has(name string) bool { return len(c.means[name]) > 0 }

// rest are the arguments of the name with which a usage ends.
func (c *call) rest(name string) []string { return c.args[len(c.args)-len(c.means[name]):] }

// verbs are the words of scripts beside testscript's own. The order is that of Verbs.
var verbs []*verb

func init() {
	verbs = []*verb{
		{"step", "WORD WORD...", (*Play).beginStep, false, more, "begin a step of a lab; its name says what it shows"},
		{"only", "WHERE WORD...", (*Play).only, false, more,
			"leave out the rest of the step, or without steps the script, but WHERE; the words say why"},
		{"say", "WORD...", (*Play).say, false, more, "tell the reader something"},
		{"show", "[OBJECT] EXPR", (*Play).show, false, more, "tell what it is, a line for each element of a list"},

		{"namespace", "NAME", func(p *Play, c *call) error { return p.enter(c.args[0]) }, false, itself,
			"create a namespace, wait until pods can run in it, and look there from now on"},
		{"look", "NAMESPACE", (*Play).look, false, nothing, "look at another namespace from now on, and * is all"},
		{"create", "FILE [OVERLAY]", (*Play).create, false, itself, "create the objects in FILE, changed by OVERLAY"},
		{"patch", "[--status] OBJECT OVERLAY", (*Play).patch, false, itself, "change an object, or its status"},
		{"delete", "[--cascade=HOW] OBJECT", (*Play).delete, false, itself,
			"delete an object; HOW is orphan, background (default) or foreground"},
		{"repeat", "[--anyway] [--every=DURATION] COUNT VERB ARG...", (*Play).repeat, false, itself,
			"create, patch or delete so many times, and go on --anyway if refused; {n} in an argument is the time's number"},
		{"meanwhile", "VERB ARG...", (*Play).meanwhile, false, itself,
			"do the same, or repeat it, while the script goes on; the end of the step waits for it"},
		{"kubectl", "ARG...", (*Play).kubectl, true, more,
			"run kubectl in the namespace; stdout and stderr check what it says; with ! it has to fail"},
		{"retry", "ARG...", (*Play).retry, true, itself, "run kubectl until it succeeds, or with ! until it fails"},
		{"let", "NAME [OBJECT] EXPR", (*Play).let, false, nothing,
			"store a value as vars.NAME, and a text also as $NAME for the lines that follow"},

		{"await", "[OBJECT] EXPR", (*Play).await, false, itself,
			"wait until it is true, and the object's status is not about an earlier spec"},
		{"check", "[OBJECT] EXPR", (*Play).check, false, itself, "it is true now"},
		{"settle", "[OBJECT]", (*Play).settle, false, nothing,
			"wait until the loops have seen what there is, and one has nothing more to do about the object"},
		{"event", "OBJECT COMPONENT TYPE REASON REGEXP [COUNT]", (*Play).event, false, itself,
			"wait for COUNT (1) events whose whole text REGEXP matches"},

		{"mark", "[all]", (*Play).setMark, false, nothing,
			"let what looks back look no further than to here, or with all to the beginning again"},
		{"always", "[OBJECT] EXPR", func(p *Play, c *call) error { return p.throughout(c, true) }, false, itself,
			"it was true in every state; of an object, after each of its changes, and oldSelf is what it was before"},
		{"never", "[OBJECT] EXPR", func(p *Play, c *call) error { return p.throughout(c, false) }, false, itself,
			"it was false in every such state"},
		{"sequence", "[OBJECT] EXPR VALUE...", (*Play).sequence, false, itself,
			"the values that it has had, repetitions left out, were these; ... stands for any number of any values"},
		{"before", "EXPR EXPR", (*Play).before, false, itself,
			"a state in which the first was true came before any in which the second was"},
		{"timeline", "[OBJECT] EXPR", (*Play).timeline, false, more, "tell the values that it has had, and how long each"},
		{"draw", "", (*Play).draw, false, more, "draw the sizes of the ReplicaSets over time"},

		{"kcm", "ARG...", (*Play).runManager, true, more,
			"run the manager by itself until it ends; stdout and stderr check what it says; with ! it has to fail"},
		{"start", "MANAGER ARG...", (*Play).start, false, more,
			"start a manager; its log is kept, flags win over those that it has already, and $MANAGER_PORT is its port"},
		{"program", "NAME FOLDER ARG...", (*Play).startProgram, false, more,
			"build the Go program in a folder of the lab, and start it with the admin's KUBECONFIG; NAME is then a MANAGER"},
		{"end", "MANAGER", (*Play).end, false, more, "ask a manager to stop, and wait until it has"},
		{"signal", "TARGET SIGNAL", (*Play).signal, false, more,
			"send TERM, KILL, STOP or CONT to a manager, or KILL, STOP or CONT to a component of the cluster"},
		{"restart", "COMPONENT", func(p *Play, c *call) error { return p.Cluster.Disturb(p.ctx, "restart", c.args[0]) },
			false, itself, "start a component of the cluster again, and wait until it is ready"},
		{"silence", "NODE", func(p *Play, c *call) error { return p.tellKubelet(c.args[0], "silent") }, false, itself,
			"let a node's simulated kubelet say nothing from now on"},
		{"heal", "NODE", func(p *Play, c *call) error { return p.tellKubelet(c.args[0], "speaks") }, false, itself,
			"let it speak again"},
		{"press", "BUTTON", (*Play).press, false, itself, "do what a button does of the page that shows the lab"},
		{"log", "MANAGER REGEXP", (*Play).waitForLog, true, more,
			"wait until it has logged that; with ! it has not logged it so far"},
		{"get", "MANAGER USER PATH [CODE [REGEXP]]", (*Play).get, false, itself,
			"wait until it answers USER with CODE (200) and that, or with CODE 0 until nobody listens; stdout checks an answer"},
		{"bearer", "EXPR NAME", (*Play).bearer, false, more,
			"wait until the API server takes the bearer of that token for NAME, or for nobody if that is ''"},
		{"exits", "MANAGER CODE", (*Play).exits, false, itself, "wait until it has ended, with that exit code"},
		{"proxy", "NAME HOW ARG...", (*Play).proxy, false, itself,
			"put a proxy between managers and the API server; $NAME is a kubeconfig that goes through it"},
	}
}

// Verbs describes all verbs, two lines for each.
func Verbs() string {
	var b strings.Builder
	for _, v := range verbs {
		fmt.Fprintf(&b, "  %s\n      %s\n", strings.TrimSpace(v.name+" "+v.usage), v.means)
	}
	fmt.Fprintf(&b, "  %s\n      as in testscript\n", strings.Join(builtin, ", "))
	return b.String()
}

func verbNamed(name string) *verb {
	if i := slices.IndexFunc(verbs, func(v *verb) bool { return v.name == name }); i >= 0 {
		return verbs[i]
	}
	return nil
}

// commands makes testscript commands of the verbs. An error fails the script at its line.
func (p *Play) commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){}
	for _, v := range verbs {
		all[v.name] = func(ts *testscript.TestScript, neg bool, args []string) {
			c, err := v.called(ts, neg, args)
			if err == nil {
				err = p.carryOut(v, c)
			}
			if err != nil {
				ts.Fatalf("%v", err)
			}
		}
	}
	return all
}

func (p *Play) carryOut(v *verb, c *call) error {
	line := spell(v.name, c.not, c.args)
	if v.tells == itself {
		p.Narrator.Waiting(line)
	}
	p.stdout, p.stderr = c.ReadFile("stdout"), c.ReadFile("stderr")
	begin := time.Now()
	err := v.do(p, c)
	if p.ctx.Err() != nil {
		return errInterrupted
	}
	switch {
	case err != nil && p.Keep:
		p.Narrator.Say(fmt.Sprintf("%s: %v", line, err)) // before somebody looks around
	case err == nil && v.tells == itself:
		p.Narrator.Did(line, time.Since(begin))
	}
	return err
}

// spell writes a line as it can stand in a script.
func spell(verb string, not bool, args []string) string {
	words := []string{verb}
	if not {
		words = []string{"!", verb}
	}
	for _, arg := range args {
		if arg == "" || strings.ContainsAny(arg, " \t'#$") {
			arg = "'" + strings.ReplaceAll(arg, "'", "''") + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// kinds read arguments by the names that usages give them. All others are texts.
var kinds = map[string]func(string) (any, error){
	"EXPR":      as(compile),
	"OBJECT":    as(parseOperand),
	"REGEXP":    as(pattern),
	"OVERLAY":   as(overlayed),
	"COUNT":     as(count),
	"CODE":      as(code),
	"SIGNAL":    as(signalNamed),
	"WHERE":     as((&Setting{}).holds),
	"--every":   as(interval),
	"--cascade": as(cascade),
}

// pattern is a REGEXP, which verbs make a part of a longer one.
func pattern(arg string) (string, error) {
	_, err := regexp.Compile("(?:" + arg + ")")
	return arg, err
}

func as[T any](read func(string) (T, error)) func(string) (any, error) {
	return func(arg string) (any, error) { return read(arg) }
}

// parameter is an argument that a verb's usage names.
type parameter struct {
	kind     string
	optional bool
	repeated bool
}

func (v *verb) parameters() []parameter {
	var all []parameter
	for _, word := range strings.Fields(v.usage) {
		name := strings.Trim(word, "[].")
		name, _, _ = strings.Cut(name, "=") // --cascade=HOW
		all = append(all, parameter{name, strings.HasPrefix(word, "["), strings.HasSuffix(word, "...")})
	}
	return all
}

// check finds out which argument is what. It is an error if there are too many or too few.
func (v *verb) check(not bool, args []string) ([]parameter, error) {
	if not && !v.negatable {
		return nil, fmt.Errorf("%s cannot be negated", v.name)
	}
	all := v.parameters()
	needed := 0
	for _, p := range all {
		if !p.optional && !p.repeated {
			needed++
		}
	}
	spare := len(args) - needed
	var found []parameter
	for _, p := range all {
		next := ""
		if len(found) < len(args) {
			next = args[len(found)]
		}
		switch {
		case p.repeated:
			for len(found) < len(args) {
				found = append(found, p)
			}
		case !p.optional:
			found = append(found, p)
		case spare > 0 && p.matches(next):
			found = append(found, p)
			spare--
		}
	}
	if len(found) != len(args) {
		return nil, fmt.Errorf("%s takes %s, and not %q", v.name, cmp.Or(v.usage, "nothing"), args)
	}
	return found, nil
}

func (p parameter) read(arg string) (any, error) {
	if read := kinds[p.kind]; read != nil {
		return read(arg)
	}
	return arg, nil
}

// matches tells whether an argument can be what may be left out.
func (p parameter) matches(arg string) bool {
	switch {
	case strings.HasPrefix(p.kind, "--"):
		return arg == p.kind || strings.HasPrefix(arg, p.kind+"=")
	case p.kind == "OBJECT":
		return isObject(arg) || strings.HasPrefix(arg, "$") // before the script is played
	default:
		return true
	}
}
