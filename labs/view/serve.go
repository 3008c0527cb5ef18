package view

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	//go:embed page/view.html
	pageHTML string
	//go:embed page/view.css
	pageCSS string
	//go:embed page/scene.js
	sceneJS string
	//go:embed page/view.js
	viewJS string
)

var page = template.Must(template.New("view").Parse(pageHTML))

// data is what the page is told at its beginning.
type data struct {
	Title   string                       `json:"title"`
	Live    bool                         `json:"live"`
	Missing string                       `json:"missing,omitempty"`
	Deeds   []Deed                       `json:"deeds,omitempty"`
	Book    map[string]map[string]string `json:"book,omitempty"`
	Root    string                       `json:"root"` // where the book's pages are, or "" if nowhere
	Moments []Moment                     `json:"moments,omitempty"`
}

// write writes the page with what it shows. Its style and its scripts are in it, or in the folder of its files.
func write(d data, files string) ([]byte, error) {
	var b strings.Builder
	err := page.Execute(&b, map[string]any{
		"Title": d.Title, "Files": files, "CSS": template.CSS(pageCSS), "Data": d, "JS": template.JS(sceneJS + viewJS),
	})
	return []byte(b.String()), err
}

// Recording returns a page that plays the moments from one number to before another. Its links into the book begin with
// root, and its style and scripts are in the folder of the page's files, both as seen from where it will be.
func (v *View) Recording(title, root, files string, from, to int) ([]byte, error) {
	return write(data{Title: title, Missing: v.Missing, Book: v.Book, Root: root, Moments: v.between(from, to)}, files)
}

// Serve serves the page on a port of localhost, "0" for any, until stop is called. The address has the token in it.
func (v *View) Serve(port string) (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return "", nil, fmt.Errorf("serve the view: %w", err)
	}
	server := &http.Server{Handler: v.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) // ends with the server
	return fmt.Sprintf("http://%s/%s/", listener.Addr(), v.token), func() { server.Close() }, nil
}

// Handler answers below the token, and refuses everything else.
func (v *View) Handler() http.Handler {
	mux, root := http.NewServeMux(), "/"+v.token
	mux.HandleFunc("GET "+root+"/{$}", v.servePage)
	mux.HandleFunc("GET "+root+"/moments", v.serveMoments)
	mux.HandleFunc("GET "+root+"/export", v.serveExport)
	mux.HandleFunc("POST "+root+"/deeds/{name}", v.serveDeed)
	if v.Pages != "" {
		mux.Handle("GET "+root+"/book/", http.StripPrefix(root+"/book/", http.FileServer(http.Dir(v.Pages))))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this page is shown to who has the token that was printed with its address", http.StatusForbidden)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		mux.ServeHTTP(w, r)
	})
}

func (v *View) servePage(w http.ResponseWriter, r *http.Request) {
	d := data{Title: v.Title, Live: true, Missing: v.Missing, Deeds: v.Deeds, Book: v.Book}
	if v.Pages != "" {
		d.Root = "book/"
	}
	text, err := write(d, "")
	send(w, text, err)
}

func send(w http.ResponseWriter, page []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(page)
}

// serveMoments sends moments as server-sent events, many in one where many have come. A page that connects anew goes on
// after the last one that it has.
func (v *View) serveMoments(w http.ResponseWriter, r *http.Request) {
	next, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // 0 for a page that has none
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for {
		moments, news := v.After(next)
		if len(moments) > 0 {
			next += len(moments)
			text, _ := json.Marshal(moments) // it is JSON
			if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", next, text); err != nil {
				return
			}
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-news:
		}
	}
}

func (v *View) serveExport(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Disposition", `attachment; filename="loops.html"`)
	text, err := v.Recording(v.Title, "", "", 0, math.MaxInt) // all in one file
	send(w, text, err)
}

// serveDeed does what a button does.
func (v *View) serveDeed(w http.ResponseWriter, r *http.Request) {
	// What was begun is done, also if the page is closed meanwhile.
	if err := v.Press(context.WithoutCancel(r.Context()), r.PathValue("name")); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Press does what a button does, and tells so.
func (v *View) Press(ctx context.Context, button string) error {
	i := slices.IndexFunc(v.Deeds, func(d Deed) bool { return d.Name == button })
	if i < 0 {
		return fmt.Errorf("there is no button %q", button)
	}
	v.Did(button + ": " + v.Deeds[i].Does)
	err := v.Deeds[i].Do(ctx)
	if err != nil {
		v.Did(button + " did not succeed: " + err.Error())
	}
	return err
}
