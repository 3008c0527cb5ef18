// Command web is what runs in the pods of a kind cluster: a web server that can be told to be slow, to fail and to end,
// and to ask another one. It is the only file in the images web:1, web:2 and web:3, which differ in the version that it
// answers with.
//
// Its flags say in a pod's specification how the pod is to behave. On the embedded cluster, where nothing runs, the
// same flags have the same effect: see labs/controlplane/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
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

// behaviour is what the flags ask for.
type behaviour struct {
	readyAfter time.Duration
	neverReady bool
	// ends says that it ends by itself, after runFor with exitCode.
	ends     bool
	runFor   time.Duration
	exitCode int
	// stopAfter is how long it goes on after SIGTERM.
	stopAfter time.Duration
	// ask is the address that it asks, if it is to ask one.
	ask string
}

// parse reads the flags of a pod with a hostname.
func parse(hostname string, args []string) (behaviour, error) {
	var b behaviour
	var failsAs, endsAs regexp.Regexp
	flags := flag.NewFlagSet("web", flag.ContinueOnError)
	late := "how long /ready answers 503 after the start; `never` to do so for ever"
	flags.Func("ready-after", late, func(value string) (err error) {
		b.neverReady = value == "never"
		if !b.neverReady {
			b.readyAfter, err = time.ParseDuration(value)
		}
		return err
	})
	flags.DurationVar(&b.runFor, "run-for", 0, "how long to run before it ends by itself; for ever if it is not given")
	flags.IntVar(&b.exitCode, "exit-code", 0, "the code to end with then; without --run-for it ends at once")
	flags.TextVar(&failsAs, "fails-as", &regexp.Regexp{},
		"a regular expression of hostnames with which the code to end with is 1")
	flags.TextVar(&endsAs, "ends-as", &regexp.Regexp{},
		"a regular expression of hostnames: with others it runs for ever, whatever else is asked for")
	flags.DurationVar(&b.stopAfter, "stop-after", 0, "how long to take to end after SIGTERM")
	flags.StringVar(&b.ask, "ask", "",
		"an address to ask again and again; /asked says how many requests were answered, and how many failed")
	if err := flags.Parse(args); err != nil {
		return b, err
	}
	if flags.NArg() > 0 {
		return b, fmt.Errorf("it takes flags only, not %q", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) {
		b.ends = b.ends || slices.Contains([]string{"run-for", "exit-code", "fails-as"}, f.Name)
	})
	if failsAs.String() != "" && failsAs.MatchString(hostname) {
		b.exitCode = 1
	}
	b.ends = b.ends && (endsAs.String() == "" || endsAs.MatchString(hostname))
	return b, nil
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

// handler answers /ready as the behaviour says, /asked with the caller's counts, and anything else with the version and
// the hostname.
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

// How long a caller waits for an answer, and then until it asks again.
const (
	callTimeout = 10 * time.Second
	callPause   = 20 * time.Millisecond
)

// caller asks an address again and again, and counts what becomes of it.
type caller struct {
	mu               sync.Mutex // held while it asks
	answered, failed int
}

// run asks for ever. It logs what fails.
func (c *caller) run(address string) {
	// Each request opens a connection of its own, as those of different callers do.
	client := &http.Client{Timeout: callTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for ; ; time.Sleep(callPause) {
		if err := c.ask(client, address); err != nil {
			fmt.Fprintln(os.Stderr, "web:", err)
		}
	}
}

// ask asks once. What is no whole answer with code 200 has failed.
func (c *caller) ask(client *http.Client, address string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed++ // until it is answered
	response, err := client.Get(address)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("read what %s answers: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, response.Status)
	}
	c.failed--
	c.answered++
	return nil
}

// counts waits for the request that is on its way.
func (c *caller) counts() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d answered, %d failed", c.answered, c.failed)
}
