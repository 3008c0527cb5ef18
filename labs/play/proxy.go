package play

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

// disturbances are what a proxy can do to the requests that pass it.
var disturbances = map[string]func(p *Play, args []string) (func(next proxy.RoundTripper) proxy.RoundTripper, error){
	"slow":   slow,
	"meddle": meddle,
}

// proxy puts a proxy before the API server.
func (p *Play) proxy(c *call) error {
	disturbance := disturbances[c.args[1]]
	if disturbance == nil {
		return fmt.Errorf("unknown disturbance %s: a proxy can be slow DURATION, for all resources or for those that "+
			"follow, or meddle COUNT PATH, with any number of paths", c.args[1])
	}
	wrap, err := disturbance(p, c.args[2:])
	if err != nil {
		return err
	}
	path := filepath.Join(p.Logs, c.args[0]+".kubeconfig")
	server, err := proxy.Start(p.Cluster.RESTConfig(cluster.KCM), path, wrap)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, func() { proxy.Close(server) })
	c.Setenv(c.args[0], path)
	return nil
}

// slow lets every watch, or those of some resources, arrive late by a delay, and everything else at once. So the caches
// of who uses it lag behind.
func slow(_ *Play, args []string) (func(proxy.RoundTripper) proxy.RoundTripper, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("slow takes a duration, such as 2s, and resources, such as pods")
	}
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return nil, err
	}
	late := func(ctx context.Context, _ []byte, came time.Time) error { return proxy.Pause(ctx, came.Add(delay)) }
	return proxy.Watches(late, args[1:]...), nil
}

// meddle writes an object itself just before each of the first COUNT updates of it. PATHS are those of the objects in
// the API. It counts in the annotation meddled.
func meddle(p *Play, args []string) (func(proxy.RoundTripper) proxy.RoundTripper, error) {
	if len(args) < 2 {
		return nil, fmt.Errorf("meddle takes a count and paths")
	}
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	client := kubernetes.NewForConfigOrDie(p.config).CoreV1().RESTClient()
	var mu sync.Mutex
	updates := map[string]int{}
	return func(next proxy.RoundTripper) proxy.RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			if path := request.URL.Path; request.Method == http.MethodPut && slices.Contains(args[1:], path) {
				mu.Lock()
				updates[path]++
				number := updates[path]
				mu.Unlock()
				if number <= count {
					patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"meddled":"%d"}}}`, number)
					if err := client.Patch(types.MergePatchType).AbsPath(path).Body(patch).Do(request.Context()).Error(); err != nil {
						return nil, err
					}
				}
			}
			return next(request)
		}
	}, nil
}
