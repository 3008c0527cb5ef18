// Command picture takes a picture of a page with Chromium:
//
//	go run ./scripts/picture -size 1280x1100 -until 'view.player.at > 40' http://127.0.0.1:8080/TOKEN/ picture.png
//
// Where the file is an SVG it is the picture that the live view draws, and nothing
// around it. Unlike chromium --screenshot it ends also where a page keeps a connection open,
// as the live view does. What goes wrong in the page is its error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

func main() {
	size := flag.String("size", "1280x1100", "width and height in pixels")
	until := flag.String("until", "true", "a JavaScript `expression`: the picture is taken when it is true")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "picture: it takes an address and a file, after its flags")
		os.Exit(2)
	}
	if err := take(context.Background(), flag.Arg(0), flag.Arg(1), *size, *until); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// patience is how long the page may take until what it shows is as it is to be.
const patience = 2 * time.Minute

func take(ctx context.Context, address, file, size, until string) error {
	var width, height int64
	if _, err := fmt.Sscanf(size, "%dx%d", &width, &height); err != nil {
		return fmt.Errorf("-size %s: it is WIDTHxHEIGHT", size)
	}
	// Chromium refuses to run as root otherwise; it shows our own pages.
	allocator, end := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...)
	defer end()
	var mu sync.Mutex
	var wrong error
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithListener(func(event any) {
		if thrown, is := event.(*runtime.EventExceptionThrown); is {
			mu.Lock()
			defer mu.Unlock()
			wrong = errors.Join(wrong, fmt.Errorf("the page: %s %v", thrown.ExceptionDetails.Text, thrown.ExceptionDetails.Exception))
		}
	}))
	defer cancel()
	err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height))
	if err != nil {
		return fmt.Errorf("start Chromium (on Debian: apt-get install chromium): %w", err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		return fmt.Errorf("open the page: %w", err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](until, chromedp.WithPollingTimeout(patience))); err != nil {
		return fmt.Errorf("wait until %s: %w", until, err)
	}
	var picture []byte
	if filepath.Ext(file) == ".svg" {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("view.still()"))
		if err != nil {
			return fmt.Errorf("ask the live view for its picture: %w", err)
		}
		picture = []byte(text)
	} else if picture, err = chromedp.Run(ctx, chromedp.CaptureScreenshot()); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(wrong, os.WriteFile(file, picture, 0o644))
}
