package play

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

func (p *Play) beginStep(c *call) error {
	if err := p.endStep(); err != nil {
		return err
	}
	p.steps++
	p.stepBegan = time.Now()
	return p.Narrator.Step(p.ctx, p.steps, strings.Join(c.args, " "))
}

// endStep waits for what the step has begun, and tells that it has passed.
func (p *Play) endStep() error {
	if err := p.join(); err != nil {
		return err
	}
	if !p.stepBegan.IsZero() {
		p.Narrator.Passed(time.Since(p.stepBegan))
	}
	return nil
}

// stayUp leaves everything up until ctx ends, and says how to look around.
func (p *Play) stayUp(err error) {
	if err != nil {
		p.Narrator.Say(err.Error())
	}
	p.Narrator.Title("Everything stays up until Ctrl-C.")
	if p.Cluster != nil {
		p.Narrator.Say("export KUBECONFIG=" + p.Cluster.Kubeconfigs[cluster.Admin])
		p.Narrator.Say("the audit log is " + p.Cluster.AuditLog)
	}
	for _, m := range p.managers {
		if m.Running() {
			p.Narrator.Say(fmt.Sprintf("%s is process %d, its log will be %s", m.name, m.Cmd.Process.Pid, m.log))
		}
	}
	<-p.ctx.Done()
}

// only is carried out where the condition holds, and where it does not: the rest of the step is then left out already
// (see [Script.without]).
func (p *Play) only(c *call) error {
	holds, err := p.holds(c.args[0])
	if err != nil || holds {
		return err
	}
	why := fmt.Sprintf("only %s: %s", c.args[0], strings.Join(c.args[1:], " "))
	if p.steps == 0 {
		p.t.Skip(why)
	}
	p.Narrator.Skipped(why)
	p.stepBegan = time.Time{}
	return nil
}

func (p *Play) say(c *call) error {
	p.Narrator.Say(strings.Join(c.args, " "))
	return nil
}

func (p *Play) show(c *call) error {
	value, err := p.valueOf(asked(c))
	if err != nil {
		return err
	}
	list, is := value.(traits.Lister)
	if !is {
		p.Narrator.Say(readable(value))
		return nil
	}
	for it := list.Iterator(); it.HasNext().Value() == true; {
		p.Narrator.Say(readable(it.Next()))
	}
	return nil
}

// readable is a value as a reader would write it.
func readable(value ref.Val) string {
	native, err := value.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return fmt.Sprint(value.Value())
	}
	if text, is := native.(*structpb.Value).GetKind().(*structpb.Value_StringValue); is {
		return text.StringValue
	}
	text, _ := json.MarshalIndent(native.(*structpb.Value).AsInterface(), "", "  ") // it is JSON
	return string(text)
}
