package play

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcm-book/kcm-book/labs/history"
)

// question is an EXPR about an OBJECT, or about all that is there.
type question struct {
	about      *operand
	expression *expression
}

func asked(c *call) question {
	return question{argument[*operand](c, "OBJECT"), argument[*expression](c, "EXPR")}
}

func (q question) String() string {
	if q.about != nil {
		return q.about.source + ": " + q.expression.source
	}
	return q.expression.source
}

func (q question) ask(p *Play, state history.State) (ref.Val, error) {
	var self *unstructured.Unstructured
	if q.about != nil {
		if self = p.find(q.about, state); self == nil {
			return nil, fmt.Errorf("there is no %s", q.about.source)
		}
	}
	return q.expression.value(p.activation(state, self, nil))
}

func (q question) isTrue(p *Play, state history.State) (bool, error) {
	return q.expression.truth(q.ask(p, state))
}

func (p *Play) await(c *call) error { return p.awaitAnswer(asked(c).String(), asked(c)) }

// until waits until an expression is true, of an object if one is named.
func (p *Play) until(what string, about *operand, source string) error {
	e, err := compile(source)
	if err != nil {
		return err
	}
	return p.awaitAnswer(what, question{about, e})
}

// awaitAnswer waits until what is asked is true, and about the object's present spec.
func (p *Play) awaitAnswer(what string, q question) error {
	return p.poll(what, func(now history.State) (bool, error) {
		if q.about != nil {
			if object := p.find(q.about, now); object != nil {
				if err := behind(p.view(object)); err != nil {
					return false, err
				}
			}
		}
		return q.isTrue(p, now)
	})
}

// behind returns an error while an object's status is about an earlier spec. Such a status may have what is awaited
// from before the last change.
func behind(object map[string]any) error {
	generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
	observed, has, _ := unstructured.NestedInt64(object, "status", "observedGeneration")
	if has && observed < generation {
		return fmt.Errorf("it is of generation %d, its status of %d", generation, observed)
	}
	return nil
}

func (p *Play) check(c *call) error {
	q := asked(c)
	now, err := p.stateFor(q)
	if err != nil {
		return err
	}
	ok, err := q.isTrue(p, now)
	if err == nil && !ok {
		err = fmt.Errorf("%s is not true\nthis is there:\n%s", q, describe(now))
	}
	return err
}

func (p *Play) let(c *call) error {
	value, err := p.valueOf(asked(c))
	if err != nil {
		return err
	}
	p.vars[c.args[0]] = value
	if text, is := value.(types.String); is {
		c.Setenv(c.args[0], string(text))
	}
	return nil
}

func (p *Play) valueOf(q question) (ref.Val, error) {
	now, err := p.stateFor(q)
	if err != nil {
		return nil, err
	}
	return q.ask(p, now)
}

// stateFor is the newest state, if the question is about what is there: what is not can be asked also while the API
// server is away.
func (p *Play) stateFor(q question) (history.State, error) {
	if q.about == nil && len(mentionedIn(q.expression.source)) == 0 {
		return nil, nil
	}
	changes, err := p.changes()
	return history.Now(changes), err
}
