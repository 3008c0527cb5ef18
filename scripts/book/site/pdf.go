package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// findBrowser returns the program of a Chromium, which goes by one name or another.
func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("a PDF needs Chromium (on Debian: apt-get install chromium)")
}

// PDF prints the book, which is in the directory as one page, to book.pdf beside it, on A4, with an outline.
func PDF(ctx context.Context, dir string) error {
	browser, err := findBrowser()
	if err != nil {
		return err
	}
	from, to := filepath.Join(dir, "book.html"), filepath.Join(dir, "book.pdf")
	// Chromium refuses to run as root in its sandbox; it shows our own page.
	out, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
		"--generate-pdf-document-outline", "--print-to-pdf="+to, "file://"+from).CombinedOutput()
	if _, missing := os.Stat(to); err == nil {
		err = missing // it ends well, too, where it has printed nothing
	}
	if err != nil {
		return fmt.Errorf("print %s: %w\n%s", from, err, out)
	}
	return nil
}
