package weave

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

// Each archive in testdata holds a module and books about it. The files of a book
// lie in book/NAME/ in the archive and beside those of the module when the book
// is tried. What is expected of it lies in book/NAME/want/:
//
//	errors         what weave says about the filled book, nothing if it is missing
//	chapters/...   chapters after weave fill
//	build/...      all files of stages but for go.mod and go.sum

func TestBooks(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			module, books := readArchive(t, path)
			require.NotEmpty(t, books)
			for name, files := range books {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					maps.Copy(files, module)
					testBook(t, files)
				})
			}
		})
	}
}

// testBook fills and checks a book, and compares what that gives with what the
// archive wants.
func testBook(t *testing.T, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	writeTree(t, root, files)
	source, err := loadSource(root)
	require.NoError(t, err)

	w, err := fillBook(source)
	if err != nil {
		assert.Equal(t, files["want/errors"], err.Error()+"\n")
		return
	}
	var mistakes strings.Builder
	for _, mistake := range w.mistakes() {
		mistakes.WriteString(strings.ReplaceAll(mistake.Error(), root+"/", "") + "\n")
	}
	assert.Equal(t, files["want/errors"], mistakes.String())
	stages := map[string]map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(path, "want/chapters/") {
			assert.Equal(t, files[path], readFile(t, filepath.Join(root, strings.TrimPrefix(path, "want/"))))
		}
		if name, isFile := strings.CutPrefix(path, "want/build/"); isFile {
			stage, name, _ := strings.Cut(name, "/")
			if stages[stage] == nil {
				stages[stage] = map[string]string{}
			}
			stages[stage][name] = files[path]
		}
	}
	for _, chapter := range w.Chapters {
		for _, at := range momentsOf(chapter) {
			s := &Stage{weave: w, number: chapter.Number, at: at}
			if want := stages[filepath.Base(s.directory())]; want != nil {
				assert.Equal(t, want, contentsOf(t, w, at), s.name())
				delete(stages, filepath.Base(s.directory()))
			}
		}
	}
	assert.Empty(t, stages, "there are no chapters for these")
	assertRoundTrip(t, w)
}

// fillBook fills the chapters of a book and reads them again.
func fillBook(source *Source) (*Book, error) {
	w, err := readBook(source)
	if err != nil {
		return nil, err
	}
	if err := w.Fill(io.Discard); err != nil {
		return nil, err
	}
	return readBook(source)
}

func readBook(source *Source) (*Book, error) {
	all, err := chapters.Read(source.root)
	if err != nil {
		return nil, err
	}
	return newBook(source, all)
}

// assertRoundTrip asserts that filling a filled book changes nothing, and that
// filling it anew, after all bodies but those of drafts are gone, gives it back.
func assertRoundTrip(t *testing.T, w *Book) {
	t.Helper()
	filled, err := w.filled()
	require.NoError(t, err)
	var emptied []*chapters.Chapter
	for _, chapter := range w.Chapters {
		require.Equal(t, sourceOf(chapter), string(bytes.Join(filled[chapter], nil)), chapter.Path)
		texts := map[*chapters.Block]chapters.Text{}
		for _, block := range chapter.Blocks {
			if block.File != "" || block.Package != "" && w.shown[block][0].final() {
				texts[block] = chapters.Text{}
			}
		}
		sources, err := chapter.Fill(texts)
		require.NoError(t, err)
		var pages []*chapters.Page
		for i, page := range chapter.Pages {
			pages = append(pages, &chapters.Page{Path: path.Base(page.Path), Source: sources[i]})
		}
		empty, err := chapters.Parse(chapter.Number, chapter.Slug, pages...)
		require.NoError(t, err)
		emptied = append(emptied, empty)
	}
	again, err := newBook(w.source, emptied)
	require.NoError(t, err)
	refilled, err := again.filled()
	require.NoError(t, err)
	for i, chapter := range w.Chapters {
		require.Equal(t, sourceOf(chapter), string(bytes.Join(refilled[emptied[i]], nil)), chapter.Path)
	}
}

func sourceOf(c *chapters.Chapter) string {
	var all strings.Builder
	for _, page := range c.Pages {
		all.Write(page.Source)
	}
	return all.String()
}

// contentsOf returns the files of a stage that compiles.
func contentsOf(t *testing.T, w *Book, at moment) map[string]string {
	t.Helper()
	s, err := w.compiling(at)
	require.NoError(t, err)
	contents, err := s.contents()
	require.NoError(t, err)
	got := map[string]string{}
	for name, text := range contents {
		if name != "go.mod" && name != "go.sum" {
			got[name] = string(text)
		}
	}
	return got
}

// readArchive returns the files of the module and those of each book.
func readArchive(t *testing.T, path string) (module map[string]string, books map[string]map[string]string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	require.NoError(t, err)
	module = map[string]string{"go.mod": "module example.com/book\n\ngo 1.24\n", "go.sum": ""}
	books = map[string]map[string]string{}
	for _, file := range archive.Files {
		name, inBook := strings.CutPrefix(file.Name, "book/")
		if !inBook {
			module[file.Name] = string(file.Data)
			continue
		}
		name, inside, _ := strings.Cut(name, "/")
		if books[name] == nil {
			books[name] = map[string]string{}
		}
		books[name][inside] = string(file.Data)
	}
	return module, books
}

func writeTree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if !strings.HasPrefix(name, "want/") {
			require.NoError(t, WriteFile(filepath.Join(root, name), []byte(text)))
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
