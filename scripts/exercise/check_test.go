package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
	"github.com/kcm-book/kcm-book/scripts/book/weave"
	"github.com/kcm-book/kcm-book/scripts/exercise/behaviours"
	"github.com/kcm-book/kcm-book/scripts/exercise/workspace"
)

func TestAFileThatDoesNotCompileIsLeftAsItWasWritten(t *testing.T) {
	t.Parallel()
	const cut, whole, test = "package shop\n\nfunc a() {}\n", "package shop\n\nfunc b() { a() }\n",
		"package shop\n\nimport \"testing\"\n\nfunc TestB(*testing.T) { b() }\n"
	for name, c := range map[string]struct {
		files  map[string]string
		broken []string
	}{
		"a body":                       {map[string]string{"a.go": "package shop\n\nfunc a() { c := 0 }\n"}, []string{"shop/a.go"}},
		"what is no Go":                {map[string]string{"a.go": "package shop\n\nfunc a() {\n"}, []string{"shop/a.go"}},
		"a file of the reader's alone": {map[string]string{"own.go": "package shop\n\nvar own int = true\n"}, []string{"shop/own.go"}},
		"and what uses it": {map[string]string{"a.go": "package shop\n\nfunc a() { c := 0 }\n\nfunc help() {}\n",
			"b.go": "package shop\n\nfunc b() { help() }\n"}, []string{"shop/a.go", "shop/b.go"}},
		"what others use in another way": {map[string]string{"a.go": "package shop\n\nfunc a(int) {}\n"}, []string{"shop"}},
		"nothing":                        {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string][]byte{"go.mod": []byte("module example.com\n\ngo 1.26\n")}
			for file, text := range map[string]string{"a.go": cut, "b.go": whole, "b_test.go": test} {
				files["shop/"+file], files[".book/shop/"+file] = []byte(text), []byte(text)
			}
			for file, text := range c.files {
				files["shop/"+file] = []byte(text)
			}
			dir := t.TempDir()
			require.NoError(t, weave.WriteFiles(dir, files))
			checks := &checker{w: &workspace.Workspace{Dir: dir}, temp: t.TempDir(), overlay: map[string]string{},
				broken: map[string]string{}, programs: map[string]*behaviours.Program{}}
			program := checks.program(t.Context(), &chapters.Exercise{Blocks: []*chapters.Block{{Package: "shop"}}})
			assert.Equal(t, c.broken, slices.Sorted(maps.Keys(checks.broken)), "%v", checks.broken)
			assert.Equal(t, checks.broken["shop"] == "", program != nil, "the others can be checked")
		})
	}
}
