package play

import (
	"fmt"
	"net"
)

// door is something that only counts who connects to it. The kernel lets them
// in; nobody answers.
type door struct {
	net.Listener
	visits int
}

func (p *Play) listen(c *call) error {
	if p.doors[c.args[0]] != nil {
		return fmt.Errorf("%s is listened at already", c.args[0])
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.doors[c.args[0]] = &door{Listener: listener}
	c.Setenv(c.args[0], listener.Addr().String())
	return nil
}

// visits tells how often somebody has connected to each door, or -1 if that
// cannot be told.
func (p *Play) visits() map[string]int {
	counts := map[string]int{}
	for name, d := range p.doors {
		counts[name] = d.count()
	}
	return counts
}

// count lets in who waits at the door, in the order in which they have come,
// until it is our turn.
func (d *door) count() int {
	us, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		return -1
	}
	defer us.Close()
	for {
		visitor, err := d.Accept()
		if err != nil {
			return -1
		}
		visitor.Close()
		if visitor.RemoteAddr().String() == us.LocalAddr().String() {
			return d.visits
		}
		d.visits++
	}
}
