// Command late stands between a controller manager and the API server. It passes
// everything on at once until it is told to hold (SIGUSR1). From then on watches
// of some resources bring nothing any more, and everything else is as before:
//
//	late KUBECONFIG NEW-KUBECONFIG RESOURCE...
//
// A manager that is started with the new kubeconfig goes through it.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kcm-book/kcm-book/labs/proxy"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: late KUBECONFIG NEW-KUBECONFIG RESOURCE...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "late:", err)
		os.Exit(1)
	}
}

// run passes requests on until the process is asked to end.
func run(from, to string, resources []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", from)
	if err != nil {
		return err
	}
	told, end := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	hold := make(chan struct{})
	holdOnce := sync.OnceFunc(func() { close(hold) })
	server, err := proxy.Start(config, to, func(next proxy.RoundTripper) proxy.RoundTripper {
		return func(request *http.Request) (*http.Response, error) {
			response, err := next(request)
			if err == nil && proxy.Watches(request, resources...) {
				response.Body = &held{response.Body, hold, request.Context().Done()}
			}
			return response, err
		}
	})
	if err != nil {
		return err
	}
	defer proxy.Close(server)
	for {
		select {
		case <-told:
			holdOnce()
		case <-end:
			return nil
		}
	}
}

// held is the body of a watch. When hold is closed nothing more can be read of
// it, and it does not end either, until who reads it has gone.
type held struct {
	io.ReadCloser
	hold, gone <-chan struct{}
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	select {
	case <-h.hold:
		<-h.gone
		return 0, io.ErrUnexpectedEOF
	default:
		return n, err
	}
}
