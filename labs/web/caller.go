package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

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
