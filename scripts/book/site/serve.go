package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// settled is how long nothing is written before a save counts as whole: editors write more than once.
const settled = 300 * time.Millisecond

// reloading is what a page that is served has at its end: it asks each second whether it has been written anew.
const reloading = `<script>setInterval(async () => {
	const written = (await fetch("", { method: "HEAD" })).headers.get("Last-Modified");
	if (Date.parse(written) > Date.parse(document.lastModified)) location.reload();
}, 1000);</script>`

// Serve shows the site on this machine until ctx ends, and writes it anew whenever a file of the book or of the code is
// saved. A mistake is printed, and the pages stay as they were.
func Serve(ctx context.Context, root, dir string, port int, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("%w; choose another one: make serve PORT=8001", err)
	}
	defer listener.Close()
	written := look(root)
	if err := rewrite(root, dir, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s shows the book, and reloads when you save. Ctrl-C ends it.\n", listener.Addr())
	server := &http.Server{Handler: handler(dir), ReadHeaderTimeout: time.Minute}
	go func() {
		defer server.Close()
		for before := written; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(settled):
			}
			now := look(root)
			if now == before && now != written {
				written = now
				if err := rewrite(root, dir, out); err != nil {
					fmt.Fprintln(out, err)
				}
			}
			before = now
		}
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func rewrite(root, dir string, out io.Writer) error {
	begin := time.Now()
	count, err := Write(root, dir, false)
	if err == nil {
		fmt.Fprintf(out, "%s: %d pages written in %.1f s\n", begin.Format(time.TimeOnly), count, time.Since(begin).Seconds())
	}
	return err
}

// sources are how many files the site is made of, and when the last one was saved.
type sources struct {
	count int
	last  time.Time
}

// look looks at all files that can change a page. What editors write beside a file cannot.
func look(root string) (found sources) {
	for _, top := range []string{"README.md", "chapters", "diagrams", "kcm", "labs"} {
		filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			if err != nil || !slices.Contains([]string{".md", ".go", ".svg", ".txtar", ".yaml"}, filepath.Ext(path)) {
				return nil // a file that has just gone is counted no more
			}
			if info, err := entry.Info(); err == nil {
				found.count++
				if info.ModTime().After(found.last) {
					found.last = info.ModTime()
				}
			}
			return nil
		})
	}
	return found
}

// handler serves the site, with pages that reload themselves.
func handler(dir string) http.Handler {
	files := http.FileServer(http.Dir(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		name := path.Clean(r.URL.Path)
		if name == "/" {
			name = "/index.html"
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		info, err := os.Stat(file)
		if err == nil && path.Ext(name) == ".html" {
			if text, err := os.ReadFile(file); err == nil {
				http.ServeContent(w, r, name, info.ModTime(), bytes.NewReader(append(text, reloading...)))
				return
			}
		}
		files.ServeHTTP(w, r)
	})
}
