package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// readyURLs are where the components that can be broken say, in the node, that they are ready. Anybody may ask.
var readyURLs = map[Component]string{
	Etcd:      "http://127.0.0.1:2381/readyz",
	APIServer: "https://127.0.0.1:6443/readyz",
	Scheduler: "https://127.0.0.1:10259/readyz",
}

func checkKindComponent(component Component) error {
	if component == Kwok {
		return errors.New("no kwok runs on kind: its node is a real one")
	}
	if _, ok := readyURLs[component]; !ok {
		return fmt.Errorf("no component %q on kind: it is one of %s, %s, %s", component, Etcd, APIServer, Scheduler)
	}
	return nil
}

func (c *kindCluster) Kill(ctx context.Context, component Component) error {
	if err := c.checkRuns(ctx, component); err != nil {
		return err
	}
	return c.hold(ctx, component)
}

func (c *kindCluster) Stop(ctx context.Context, component Component) error {
	return c.signal(ctx, component, "STOP")
}

func (c *kindCluster) Continue(ctx context.Context, component Component) error {
	return c.signal(ctx, component, "CONT")
}

func (c *kindCluster) Restart(ctx context.Context, component Component) error {
	if err := checkKindComponent(component); err != nil {
		return err
	}
	if err := c.hold(ctx, component); err != nil {
		return err
	}
	if _, err := c.inNode(ctx, "rm", heldPath+"/"+string(component)); err != nil {
		return err
	}
	return until(ctx, string(component)+" is ready", func(ctx context.Context) error {
		_, err := c.inNode(ctx, "curl", "--silent", "--show-error", "--fail", "--insecure", "--max-time", "5", readyURLs[component])
		return err
	})
}

// hold kills the component's process, if there is one, and has it stay dead, see labs/cluster/hold.
func (c *kindCluster) hold(ctx context.Context, component Component) error {
	const script = `mkdir -p "$1" && touch "$1/$2" && { pkill --signal=KILL --exact "$2" || true; }`
	if _, err := c.inNode(ctx, "bash", "-c", script, "bash", heldPath, string(component)); err != nil {
		return err
	}
	return until(ctx, string(component)+" has ended", func(ctx context.Context) error {
		runs, err := c.runs(ctx, component)
		if err == nil && runs {
			err = errors.New("its process is there")
		}
		return err
	})
}

func (c *kindCluster) signal(ctx context.Context, component Component, signal string) error {
	if err := c.checkRuns(ctx, component); err != nil {
		return err
	}
	_, err := c.inNode(ctx, "pkill", "--signal="+signal, "--exact", string(component))
	return err
}

func (c *kindCluster) checkRuns(ctx context.Context, component Component) error {
	if err := checkKindComponent(component); err != nil {
		return err
	}
	runs, err := c.runs(ctx, component)
	if err == nil && !runs {
		err = fmt.Errorf("%s does not run: start it again with Restart", component)
	}
	return err
}

func (c *kindCluster) runs(ctx context.Context, component Component) (bool, error) {
	pids, err := c.inNode(ctx, "bash", "-c", `pgrep --exact "$1" || true`, "bash", string(component))
	return strings.TrimSpace(pids) != "", err
}
