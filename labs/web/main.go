// Command web is what runs in the pods of a kind cluster: a web server that can be told to be slow, to fail and to end, and
// to ask another one.
// It is the only file in the images web:1, web:2 and web:3, which differ in the version that it answers with.
//
// Its flags say in a pod's specification how the pod is to behave. On the embedded cluster, where nothing runs, the
// same flags have the same effect: see labs/controlplane/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The exit code of a process that SIGTERM has ended, as a shell would say it.
const exitTerminated = 128 + int(syscall.SIGTERM)

func main() {
	hostname, _ := os.Hostname()
	b, err := parse(hostname, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	c := &caller{}
	if b.ask != "" {
		go c.run(b.ask)
	}
	go func() {
		err := http.ListenAndServe(":8080", b.handler(time.Now(), hostname, c))
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}()
	os.Exit(b.wait(ctx))
}

// wait returns the exit code when it is time to end.
func (b behaviour) wait(ctx context.Context) int {
	var end <-chan time.Time // never, if it is not to end by itself
	if b.ends {
		end = time.After(b.runFor)
	}
	select {
	case <-end:
		return b.exitCode
	case <-ctx.Done():
		time.Sleep(b.stopAfter)
		return exitTerminated
	}
}

// handler answers /ready as the behaviour says, /asked with the caller's counts, and anything else with the version and the
// hostname.
func (b behaviour) handler(started time.Time, hostname string, c *caller) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if b.neverReady || time.Since(started) < b.readyAfter {
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("/asked", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, c.counts()) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "web:%s on %s\n", os.Getenv("VERSION"), hostname)
	})
	return mux
}
