package site

import (
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
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settled is how long nothing is written before a save counts as whole: editors write more than once.
const settled = 100 * time.Millisecond

// watched are the directories whose files make the site, with those below them.
var watched = []string{"chapters", "diagrams", "kcm", "labs"}

// reloading is what a page that is served has at its end: it asks to be told of the next save.
const reloading = `<script>new EventSource("/saved").onmessage = () => location.reload();</script>`

// Serve shows the site on this machine until ctx ends, and writes it anew whenever a file of the book or of the code is
// saved. A mistake is printed, and the pages stay as they were.
func Serve(ctx context.Context, root, dir string, port int, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("%w; choose another one: make serve PORT=8001", err)
	}
	defer listener.Close()
	watcher, err := watch(root)
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := rewrite(root, dir, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s shows the book, and reloads when you save. Ctrl-C ends it.\n", listener.Addr())
	saves := &broadcast{}
	server := &http.Server{Handler: handler(dir, saves), ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		for saved(ctx, watcher) {
			if err := rewrite(root, dir, out); err != nil {
				fmt.Fprintln(out, err)
				continue
			}
			saves.send()
		}
		server.Close()
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

// watch watches the directories whose files make the site.
func watch(root string) (*fsnotify.Watcher, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	err = watcher.Add(root) // README.md
	for _, top := range watched {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(root, filepath.FromSlash(top)), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			return watcher.Add(path)
		}))
	}
	if err != nil {
		watcher.Close()
		return nil, err
	}
	return watcher, nil
}

// saved waits until a file of the book has been saved. It returns false when ctx has ended before.
func saved(ctx context.Context, watcher *fsnotify.Watcher) bool {
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case event := <-watcher.Events:
			if isOfTheBook(event.Name) {
				quiet = time.After(settled)
			}
		case <-watcher.Errors: // a save that goes unseen is seen with the next one
		case <-quiet:
			return true
		}
	}
}

// isOfTheBook tells whether a file can change a page. What editors write beside a file cannot.
func isOfTheBook(name string) bool {
	return slices.Contains([]string{".md", ".go", ".svg", ".txtar", ".yaml"}, filepath.Ext(name))
}

// handler serves the site, and tells its pages of saves.
func handler(dir string, saves *broadcast) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /saved", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		select {
		case <-saves.next():
			io.WriteString(w, "data: saved\n\n")
		case <-r.Context().Done():
		}
	})
	files := http.FileServer(http.Dir(dir))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		name := path.Clean(r.URL.Path)
		if name == "/" {
			name = "/index.html"
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || path.Ext(name) != ".html" {
			files.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(append(text, reloading...))
	})
	return mux
}

// broadcast tells all who wait that something has happened.
type broadcast struct {
	mu   sync.Mutex
	done chan struct{}
}

// next returns a channel that is closed at the next send.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
	}
	return b.done
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done != nil {
		close(b.done)
		b.done = nil
	}
}
