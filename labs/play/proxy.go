package play

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/proxy"
)

// wrapping is what a disturbance makes of the requests that pass a proxy.
type wrapping = func(next proxy.RoundTripper) proxy.RoundTripper

// disturbances are what a proxy can do.
var disturbances = map[string]func(p *Play, args []string) (wrapping, error){
	"slow":   slow,
	"meddle": meddle,
	"only":   onlySelected,
	"mute":   mute,
}

// proxy puts a proxy before the API server.
func (p *Play) proxy(c *call) error {
	wrap := func(next proxy.RoundTripper) proxy.RoundTripper { return next }
	for how := range strings.SplitSeq(strings.Join(c.args[1:], "\n"), "\nand\n") {
		words := strings.Split(how, "\n")
		disturbance := disturbances[words[0]]
		if disturbance == nil {
			return fmt.Errorf("unknown disturbance %s: a proxy can be slow DURATION, for all resources or for those that "+
				"follow, meddle or mute COUNT PATH, with any number of paths, show only RESOURCE SELECTOR, and one and another",
				words[0])
		}
		inner, err := disturbance(p, words[1:])
		if err != nil {
			return err
		}
		outer := wrap
		wrap = func(next proxy.RoundTripper) proxy.RoundTripper { return outer(inner(next)) }
	}
	kubeconfig := filepath.Join(p.Logs, c.args[0]+".kubeconfig")
	server, err := proxy.Start(p.Cluster.RESTConfig(cluster.KCM), kubeconfig, wrap)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, func() { proxy.Close(server) })
	c.Setenv(c.args[0], kubeconfig)
	return nil
}

// slow lets every watch, or those of some resources, arrive late by a delay, and everything else at once. So the caches
// of who uses it lag behind.
func slow(_ *Play, args []string) (wrapping, error) {
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

// onlySelected shows only those objects of a resource that a selector of labels matches.
func onlySelected(_ *Play, args []string) (wrapping, error) {
	if len(args) != 2 {
		return nil, errors.New("only takes a resource and a selector, such as nodes of=me")
	}
	return func(next proxy.RoundTripper) proxy.RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodGet && path.Base(request.URL.Path) == args[0] {
				query := request.URL.Query()
				query.Set("labelSelector", args[1])
				request.URL.RawQuery = query.Encode()
			}
			return next(request)
		}
	}, nil
}

// first returns a function that tells the number of a write of an object, if it is one of the first COUNT that have
// the method. PATHS are those of the objects in the API.
func first(method string, args []string) (func(*http.Request) (number int, is bool), error) {
	if len(args) < 2 {
		return nil, errors.New("meddle and mute take a count and paths")
	}
	count, err := strconv.Atoi(args[0])
	var mu sync.Mutex
	writes := map[string]int{}
	return func(request *http.Request) (int, bool) {
		if request.Method != method || !slices.Contains(args[1:], request.URL.Path) {
			return 0, false
		}
		mu.Lock()
		defer mu.Unlock()
		writes[request.URL.Path]++
		return writes[request.URL.Path], writes[request.URL.Path] <= count
	}, err
}

// meddle writes an object just before each of the first COUNT updates of it, and counts in the annotation meddled.
func meddle(p *Play, args []string) (wrapping, error) {
	client := kubernetes.NewForConfigOrDie(p.config).CoreV1().RESTClient()
	isFirst, err := first(http.MethodPut, args)
	return func(next proxy.RoundTripper) proxy.RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			if number, is := isFirst(request); is {
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"meddled":"%d"}}}`, number)
				write := client.Patch(types.MergePatchType).AbsPath(request.URL.Path).Body(patch)
				if err := write.Do(request.Context()).Error(); err != nil {
					return nil, err
				}
			}
			return next(request)
		}
	}, err
}

// mute loses the answers to the first COUNT patches of an object, which are carried out.
func mute(_ *Play, args []string) (wrapping, error) {
	isFirst, err := first(http.MethodPatch, args)
	return func(next proxy.RoundTripper) proxy.RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			response, err := next(request)
			if _, is := isFirst(request); is && err == nil {
				response.Body.Close()
				return nil, proxy.ErrBroken
			}
			return response, err
		}
	}, err
}
