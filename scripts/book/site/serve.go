package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// settled is how long nothing is written before a save counts as whole: editors write more than once.
const settled = 300 * time.Millisecond

// Serve shows the site on this machine until ctx ends, and writes it anew whenever a file of the book or of the code is
// saved. A mistake is printed, and the pages stay as they were.
func Serve(ctx context.Context, root string, port int, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("%w; choose another one: make serve PORT=8001", err)
	}
	defer listener.Close()
	written := look(root)
	if err := Write(root, false, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s shows the book, and reloads when you save. Ctrl-C ends it.\n", listener.Addr())
	server := &http.Server{Handler: uncached(inBuild(root)), ReadHeaderTimeout: time.Minute}
	go func() {
		defer server.Close()
		for before := written; ctx.Err() == nil; time.Sleep(settled) {
			now := look(root)
			if now == before && now != written {
				written = now
				if err := Write(root, false, out); err != nil {
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

// look returns all files that can change a page, with when they were saved. What editors write beside a file is none.
func look(root string) string {
	var found strings.Builder
	for _, top := range []string{"README.md", "chapters", "diagrams", "kcm", "labs"} {
		filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			if err == nil && slices.Contains([]string{".md", ".go", ".svg", ".txtar", ".yaml"}, filepath.Ext(path)) {
				if info, err := entry.Info(); err == nil { // else it has just gone
					fmt.Fprintln(&found, path, info.ModTime())
				}
			}
			return nil
		})
	}
	return found.String()
}

// uncached serves the site as it is on disk now: what has been written anew is not shown as it was.
func uncached(dir string) http.Handler {
	files := http.FileServer(http.Dir(dir))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		files.ServeHTTP(w, r)
	})
}
