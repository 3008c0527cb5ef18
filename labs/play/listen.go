package play

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kcm-book/kcm-book/labs/await"
)

// door is something that only counts who connects to it.
type door struct {
	net.Listener
	mu       sync.Mutex
	accepted []string // addresses
}

func (p *Play) listen(c *call) error {
	if p.doors[c.args[0]] != nil {
		return fmt.Errorf("%s is listened at already", c.args[0])
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d := &door{Listener: listener}
	p.doors[c.args[0]] = d
	c.Setenv(c.args[0], listener.Addr().String())
	go d.accept()
	return nil
}

func (d *door) accept() {
	for {
		connection, err := d.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			d.mu.Lock()
			d.accepted = append(d.accepted, connection.RemoteAddr().String())
			d.mu.Unlock()
			connection.Close()
		}
	}
}

// visits tells how often somebody has connected to each door. They are accepted
// in the order in which they came: when we are, so is everybody before us.
func (p *Play) visits() map[string]int {
	counts := map[string]int{}
	for name, d := range p.doors {
		before, err := d.before(p.ctx, p.Patience)
		if err != nil {
			before = -1
		}
		counts[name] = before
	}
	return counts
}

func (d *door) before(ctx context.Context, patience time.Duration) (count int, err error) {
	us, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		return 0, err
	}
	defer us.Close()
	err = await.Until(ctx, time.Millisecond, patience, "we are let in", func(context.Context) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if count = slices.Index(d.accepted, us.LocalAddr().String()); count < 0 {
			return fmt.Errorf("%d others are", len(d.accepted))
		}
		return nil
	})
	return count, err
}
