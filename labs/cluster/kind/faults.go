package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// manifests is the directory in the node whose static pods the kubelet runs; aside is where it looks for none.
const (
	manifests = "/etc/kubernetes/manifests/"
	aside     = "/etc/kubernetes/"
)

// readyURLs are where the components that can be broken say, in the node, that they are ready. Anybody may ask.
var readyURLs = map[string]string{
	"etcd":           "http://127.0.0.1:2381/readyz",
	"kube-apiserver": "https://127.0.0.1:6443/readyz",
	"kube-scheduler": "https://127.0.0.1:10259/readyz",
}

func components() []string { return slices.Sorted(maps.Keys(readyURLs)) }

// disturb kills, stops, continues or restarts a component. One that is killed is kept from the kubelet, which would
// start it again.
func (c *kindCluster) disturb(ctx context.Context, command, component string) error {
	switch {
	case component == "kwok":
		return errors.New("no kwok runs on kind: its node is a real one")
	case readyURLs[component] == "":
		return fmt.Errorf("no component %q on kind: it is one of %s", component, strings.Join(components(), ", "))
	case component == "etcd" && (command == "kill" || command == "restart"):
		// A kubelet whose API server does not answer takes minutes to start anything.
		return errors.New("etcd cannot be killed on kind, where it would take minutes to come back: freeze it")
	case command == "restart":
		return c.restart(ctx, component)
	}
	pids, err := c.inNode(ctx, "bash", "-c", `pgrep --exact "$1" || true`, "bash", component)
	if err != nil || pids == "" {
		return cmp.Or(err, fmt.Errorf("%s does not run: restart it", component))
	}
	if command == "kill" {
		return c.takeAway(ctx, component)
	}
	_, err = c.inNode(ctx, "pkill", "--signal="+strings.ToUpper(command), "--exact", component)
	return err
}

// restart kills a component if it runs, has the kubelet start it again, and returns when it is ready.
func (c *kindCluster) restart(ctx context.Context, component string) error {
	if err := c.takeAway(ctx, component); err != nil {
		return err
	}
	if _, err := c.inNode(ctx, "mv", aside+component+".yaml", manifests); err != nil {
		return err
	}
	return until(ctx, component+" is ready", func(ctx context.Context) error {
		_, err := c.inNode(ctx, "curl", "--silent", "--show-error", "--fail", "--insecure", "--max-time=5",
			readyURLs[component])
		return err
	})
}

// takeAway takes a component's manifest from the kubelet, which then ends its pod, and returns when that has ended. A
// component that can be broken does not live to see it.
func (c *kindCluster) takeAway(ctx context.Context, component string) error {
	const script = `if [ -e "$1$3.yaml" ]; then mv "$1$3.yaml" "$2"; fi; pkill --signal=KILL --exact "$3" || true`
	if _, err := c.inNode(ctx, "bash", "-c", script, "bash", manifests, aside, component); err != nil {
		return err
	}
	return until(ctx, component+" has ended", func(ctx context.Context) error {
		container, err := c.inNode(ctx, "crictl", "ps", "--quiet", "--name=^"+component+"$")
		if err == nil && container != "" {
			err = errors.New("container " + strings.TrimSpace(container) + " runs")
		}
		return err
	})
}
