package scenarios

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcm-book/kcm-book/labs/history"
)

// question is an EXPR about an OBJECT, or about all that is there.
type question struct {
	about      *operand
	expression *expression
}

func (s *scenario) parseQuestion(args []string) (question, error) {
	var q question
	if len(args) == 2 {
		about, err := parseOperand(args[0])
		if err != nil {
			return q, err
		}
		q.about, args = &about, args[1:]
	}
	var err error
	q.expression, err = compile(args[0])
	return q, err
}

func (q question) String() string {
	if q.about != nil {
		return q.about.source + " has " + q.expression.source
	}
	return q.expression.source
}

// errAbsent is the answer while the object is not there.
type errAbsent struct{ object string }

func (e errAbsent) Error() string { return "there is no " + e.object }

func (q question) ask(s *scenario, state history.State) (ref.Val, error) {
	var self map[string]any
	if q.about != nil {
		if self = s.find(*q.about, state); self == nil {
			return nil, errAbsent{q.about.source}
		}
	}
	return q.expression.value(s.activation(state, self))
}

func (q question) isTrue(s *scenario, state history.State) (bool, error) {
	value, err := q.ask(s, state)
	if err != nil {
		return false, err
	}
	truth, ok := value.Value().(bool)
	if !ok {
		return false, &fatalError{fmt.Errorf("%s is %v and not true or false", q.expression.source, value)}
	}
	return truth, nil
}

func (s *scenario) await(_ *testscript.TestScript, args []string) error {
	q, err := s.parseQuestion(args)
	if err != nil {
		return err
	}
	return s.poll(q.String(), func(now history.State) (bool, error) {
		if q.about != nil {
			if err := behind(s.find(*q.about, now)); err != nil {
				return false, err
			}
		}
		return q.isTrue(s, now)
	})
}

// behind returns an error while an object's status is about an earlier spec.
// Such a status may have what is awaited from before the last change.
func behind(object map[string]any) error {
	generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
	observed, has, _ := unstructured.NestedInt64(object, "status", "observedGeneration")
	if has && observed < generation {
		return fmt.Errorf("it is of generation %d, its status of %d", generation, observed)
	}
	return nil
}

// event looks at the events about an object, also at those of repetitions that
// one event counts.
func (s *scenario) event(_ *testscript.TestScript, args []string) error {
	o, name, err := s.locate(args[0])
	if err != nil {
		return err
	}
	component, kind, reason := args[1], args[2], args[3]
	message, err := regexp.Compile("^(?:" + args[4] + ")$")
	if err != nil {
		return err
	}
	wanted := 1
	if len(args) == 6 {
		if wanted, err = strconv.Atoi(args[5]); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%s has %d events %s %s %s %q", args[0], wanted, component, kind, reason, args[4])
	return s.poll(what, func(now history.State) (bool, error) {
		found := 0
		for _, event := range now.Objects("events") {
			if !isAbout(event, o, name) || text(event, "type") != kind || text(event, "reason") != reason ||
				text(event, "source", "component") != component || !message.MatchString(text(event, "message")) {
				continue
			}
			count, _, _ := unstructured.NestedInt64(event.Object, "count")
			found += max(int(count), 1)
		}
		return found >= wanted, fmt.Errorf("%d are there", found)
	})
}

func isAbout(event *unstructured.Unstructured, o operand, name string) bool {
	return kindOf[strings.ToLower(text(event, "involvedObject", "kind"))] == o.resource && text(event, "involvedObject", "name") == name
}

func text(object *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, path...)
	return value
}

// setMark makes this the beginning for those that look back.
func (s *scenario) setMark(_ *testscript.TestScript, _ []string) (err error) {
	s.mark, err = s.recording.CatchUp(context.Background())
	return err
}

// since calls look with every state since the mark, until it returns an error.
func (s *scenario) since(look func(history.State) error) error {
	if _, err := s.recording.CatchUp(context.Background()); err != nil {
		return err
	}
	changes, err := s.recording.Changes()
	if err != nil {
		return err
	}
	for i, state := range history.States(changes) {
		if next := i + 1; next < len(changes) && changes[next].Version <= s.mark {
			continue // a later state is not after the mark either
		}
		if err := look(state); err != nil {
			return fmt.Errorf("%w\nafter %s of %s %s at version %d this was there:\n%s", err,
				changes[i].Type, changes[i].Resource, changes[i].Object.GetName(), changes[i].Version, describe(state))
		}
	}
	return nil
}

func (s *scenario) always(_ *testscript.TestScript, args []string) error {
	return s.throughout(args, true)
}
func (s *scenario) never(_ *testscript.TestScript, args []string) error {
	return s.throughout(args, false)
}

func (s *scenario) throughout(args []string, wanted bool) error {
	q, err := s.parseQuestion(args)
	if err != nil {
		return err
	}
	return s.since(func(state history.State) error {
		truth, err := q.isTrue(s, state)
		if err == nil && truth != wanted {
			err = fmt.Errorf("%s was %v", q, truth)
		}
		return err
	})
}

// sequence compares the values that an expression has had with what is wanted.
// Before its object is there, and while what it asks for is not, it has none.
func (s *scenario) sequence(_ *testscript.TestScript, args []string) error {
	asked := 1
	if isObject(args[0]) {
		asked = 2
	}
	q, err := s.parseQuestion(args[:asked])
	if err != nil {
		return err
	}
	var values []string
	err = s.since(func(state history.State) error {
		value, err := q.ask(s, state)
		if err != nil {
			return nil
		}
		if text := fmt.Sprint(value.Value()); len(values) == 0 || values[len(values)-1] != text {
			values = append(values, text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if wanted := args[asked:]; !matches(values, wanted) {
		return fmt.Errorf("%s was, one after the other:\n%q\nand not\n%q", q, values, wanted)
	}
	return nil
}

// matches tells whether values are those wanted, where "..." stands for any
// number of them.
func matches(values, wanted []string) bool {
	switch {
	case len(wanted) == 0:
		return len(values) == 0
	case wanted[0] == "...":
		return matches(values, wanted[1:]) || len(values) > 0 && matches(values[1:], wanted)
	default:
		return len(values) > 0 && values[0] == wanted[0] && matches(values[1:], wanted[1:])
	}
}

// before compares the first states in which two expressions are true.
func (s *scenario) before(_ *testscript.TestScript, args []string) error {
	first, err := compile(args[0])
	if err != nil {
		return err
	}
	second, err := compile(args[1])
	if err != nil {
		return err
	}
	firstSeen, secondSeen := false, false
	err = s.since(func(state history.State) error {
		activation := s.activation(state, nil)
		// One that asks for what is not there yet is not true yet.
		now, _ := first.isTrue(activation)
		firstSeen = firstSeen || now
		now, _ = second.isTrue(activation)
		secondSeen = secondSeen || now
		if secondSeen && !firstSeen {
			return fmt.Errorf("%s came before %s", second.source, first.source)
		}
		return nil
	})
	if err == nil && (!firstSeen || !secondSeen) {
		err = fmt.Errorf("not both have come to be true: %s: %v; %s: %v", first.source, firstSeen, second.source, secondSeen)
	}
	return err
}
