package play

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/labs/history"
)

// event waits for events about an object. One counts its repetitions, too.
func (p *Play) event(c *call) error {
	o, name, err := p.locate(c)
	if err != nil {
		return err
	}
	wanted := max(argument[int](c, "COUNT"), 1)
	what := fmt.Sprintf("%s has %d events %s %s %s %q", c.args[0], wanted, c.args[1], c.args[2], c.args[3], c.args[4])
	return p.until(what, nil, fmt.Sprintf(`sum(events.filter(e,
		e.involvedObject.kind.lowerAscii() == %q && e.involvedObject.name == %q &&
		e.?source.?component.orValue("") == %q && e.?type.orValue("") == %q && e.?reason.orValue("") == %q &&
		e.?message.orValue("").matches(%q)).map(e, e.?count.orValue(1))) >= %d`,
		o.kind, name, c.args[1], c.args[2], c.args[3], "^(?:"+c.args[4]+")$", wanted))
}

// setMark makes this the beginning for those that look back.
func (p *Play) setMark(c *call) error {
	if c.has("all") {
		p.mark, p.marked = 0, p.began
		return nil
	}
	p.marked = time.Now()
	mark, err := p.catchUp()
	p.mark = mark
	return err
}

// since calls look with every state since the mark, and the change that led to it, until look returns an error.
func (p *Play) since(look func(history.State, history.Change) error) error {
	changes, err := p.changes()
	if err != nil {
		return err
	}
	for i, state := range history.States(changes) {
		if next := i + 1; next < len(changes) && changes[next].Version <= p.mark {
			continue // a later state is not after the mark either
		}
		if err := look(state, changes[i]); err != nil {
			return fmt.Errorf("%w\nafter %s of %s %s at version %d this was there:\n%s", err,
				changes[i].Type, changes[i].Resource, changes[i].Object.GetName(), changes[i].Version, describe(state))
		}
	}
	return nil
}

func (p *Play) throughout(c *call, wanted bool) error {
	q, times := asked(c), 0
	ask := func(state history.State, self, oldSelf *unstructured.Unstructured) error {
		times++
		truth, err := q.expression.isTrue(p.activation(state, self, oldSelf))
		if err == nil && truth != wanted {
			err = fmt.Errorf("%s was %v", q, truth)
		}
		return err
	}
	before := map[types.UID]*unstructured.Unstructured{}
	err := p.since(func(state history.State, change history.Change) error {
		if q.about == nil {
			return ask(state, nil, nil)
		}
		if change.Resource != q.about.resource.Resource || change.Type == watch.Deleted ||
			!p.is(q.about, state, change.Object) {
			return nil
		}
		oldSelf := before[change.Object.GetUID()]
		before[change.Object.GetUID()] = change.Object
		if oldSelf == nil && strings.Contains(q.expression.source, "oldSelf") {
			return nil
		}
		return ask(state, change.Object, oldSelf)
	})
	if err == nil && times == 0 {
		err = fmt.Errorf("there was nothing of which to ask whether %s", q)
	}
	return err
}

// sequence compares the values that an expression has had with what is wanted.
func (p *Play) sequence(c *call) error {
	q := asked(c)
	periods, err := p.periods(q)
	if err != nil {
		return err
	}
	var values []string
	for _, period := range periods {
		values = append(values, period.value)
	}
	if wanted := c.rest("VALUE"); !matches(values, wanted) {
		return fmt.Errorf("%s was, one after the other:\n%q\nand not\n%q", q, values, wanted)
	}
	return nil
}

// period is a time for which an expression had one value.
type period struct {
	value       string
	begin, last time.Time // when it was first and last seen
}

// periods returns the values that an expression has had. Before its object is there, and while what it asks for is not,
// it has none.
func (p *Play) periods(q question) ([]period, error) {
	var all []period
	err := p.since(func(state history.State, change history.Change) error {
		value, err := q.ask(p, state)
		if err != nil {
			return nil
		}
		if text := fmt.Sprint(value.Value()); len(all) == 0 || all[len(all)-1].value != text {
			all = append(all, period{value: text, begin: change.Seen})
		}
		all[len(all)-1].last = change.Seen
		return nil
	})
	return all, err
}

// matches tells whether values are those wanted, where "..." stands for any number of them.
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

// before compares the first states in which two expressions have become true. One that was true from the beginning on
// has not become so, and would be before everything.
func (p *Play) before(c *call) error {
	first, second := c.means["EXPR"][0].(*expression), c.means["EXPR"][1].(*expression)
	begun, firstSeen, secondSeen := false, false, false
	err := p.since(func(state history.State, _ history.Change) error {
		activation := p.activation(state, nil, nil)
		// One that asks for what is not there yet is not true yet.
		now, _ := first.isTrue(activation)
		if now && !begun {
			return fmt.Errorf("%s was true from the beginning on; write mark where to look from", first.source)
		}
		begun, firstSeen = true, firstSeen || now
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

// timeline tells the values that an expression has had, and when.
func (p *Play) timeline(c *call) error {
	q := asked(c)
	periods, err := p.periods(q)
	if err != nil {
		return err
	}
	if len(periods) == 0 {
		return errors.New(q.String() + " has had no value")
	}
	p.Narrator.Say(q.expression.source)
	for i, each := range periods {
		until := each.last
		if i+1 < len(periods) {
			until = periods[i+1].begin
		}
		began, lasted := each.begin.Sub(periods[0].begin), until.Sub(each.begin)
		p.Narrator.Say(fmt.Sprintf("%6.1f s  for %5.1f s  %s", began.Seconds(), lasted.Seconds(), each.value))
	}
	return nil
}
