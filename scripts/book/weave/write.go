package weave

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// recordName is the file that remembers what was written, so that what a reader
// has changed is not lost.
const recordName = ".weave.json"

// directory is where the stage is written, relative to the root.
func (s *Stage) directory() string {
	return "build/" + strings.NewReplacer(" at ", "-", " ", "-").Replace(s.name())
}

// write writes the stage as a module and returns its files. It touches nothing
// that the reader has changed: then it fails and says what.
func (s *Stage) write() (files map[string][]byte, err error) {
	if files, err = s.contents(); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.weave.source.root, s.directory())
	record, err := s.readRecord()
	if err != nil {
		return nil, err
	}
	for name := range files {
		record[name] += "" // what is not recorded may be there all the same
	}
	if err := s.checkUnchanged(record, files); err != nil {
		return nil, err
	}
	for name := range record {
		if files[name] == nil {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	written := map[string]string{}
	for name, text := range files {
		written[name] = checksum(text)
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(written, "", "\t")
	if err != nil {
		return nil, err
	}
	return files, writeFile(filepath.Join(dir, recordName), text)
}

// readRecord returns the checksums of the files that have been written before.
func (s *Stage) readRecord() (map[string]string, error) {
	record := map[string]string{}
	text, err := os.ReadFile(filepath.Join(s.weave.source.root, s.directory(), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w; remove %s to have the stage written anew", s.directory(), recordName, err, s.directory())
	}
	return record, nil
}

// checkUnchanged finds files that are neither as they were written nor as they
// are to be.
func (s *Stage) checkUnchanged(record map[string]string, files map[string][]byte) error {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(record)) {
		text, err := os.ReadFile(filepath.Join(s.weave.source.root, s.directory(), name))
		if err == nil && checksum(text) != record[name] && !bytes.Equal(text, files[name]) {
			changed = append(changed, s.directory()+"/"+name)
		}
	}
	if len(changed) > 0 {
		return fmt.Errorf("you have changed %s: go on there with go build ./kcm/cmd/kcm, or remove %s to have the stage written anew",
			strings.Join(changed, " and "), s.directory())
	}
	return nil
}

// writeFile writes a file unless it is there already: its time tells go what has
// to be built.
func writeFile(path string, text []byte) error {
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// contents returns the files of the stage's module by their paths in it.
func (s *Stage) contents() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(s.weave.source.root, name))
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	for _, dir := range slices.Sorted(maps.Keys(s.packages)) {
		p := s.packages[dir]
		for _, file := range p.files {
			text, err := file.formatted()
			if err != nil {
				return nil, fmt.Errorf("%s: %s/%s: %w", s.name(), dir, file.name, err)
			}
			files[dir+"/"+file.name] = text
			if err := s.addEmbedded(dir, file, files); err != nil {
				return nil, err
			}
		}
		if p.finished {
			paths, err := filepath.Glob(filepath.Join(s.weave.source.root, dir, "*_test.go"))
			if err != nil {
				return nil, err
			}
			if err := s.addTests(dir, slices.DeleteFunc(paths, p.lacksTested), files); err != nil {
				return nil, err
			}
		}
	}
	return files, s.addExercises(files)
}

// lacksTested tells whether a file of tests is named after one that the stage does
// not have yet.
func (p *StagePackage) lacksTested(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), "_test.go") + ".go"
	return slices.ContainsFunc(p.source.files, func(f *File) bool { return f.name == name }) &&
		!slices.ContainsFunc(p.files, func(f *StageFile) bool { return f.name == name })
}

// addEmbedded adds the files that a file has go:embed put into the program.
func (s *Stage) addEmbedded(dir string, file *StageFile, files map[string][]byte) error {
	for line := range strings.Lines(file.text) {
		name, embeds := strings.CutPrefix(strings.TrimSpace(line), "//go:embed ")
		if !embeds {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.weave.source.root, dir, name))
		if err != nil {
			return err
		}
		files[dir+"/"+name] = text
	}
	return nil
}

// addExercises adds the tests of the exercises, also those of packages that go on.
func (s *Stage) addExercises(files map[string][]byte) error {
	number := s.number
	if s.weave.step(s.at) != nil {
		number-- // at a step its own are not done
	}
	exercises, err := s.weave.Exercises(number)
	if err != nil {
		return err
	}
	for _, e := range exercises {
		if e.Scenario() {
			continue
		}
		var paths []string
		for _, name := range e.TestFiles {
			paths = append(paths, filepath.Join(s.weave.source.root, e.Dir, name))
		}
		if err := s.addTests(e.Dir, paths, files); err != nil {
			return err
		}
	}
	return nil
}

// addTests adds unit tests of a package, their data, and what they import from
// elsewhere in the repository. Tests that need a cluster are those of the labs, not
// of a stage.
func (s *Stage) addTests(dir string, paths []string, files map[string][]byte) error {
	root := s.weave.source.root
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		needed, ok, err := s.neededFrom(path, map[string]bool{})
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		files[dir+"/"+filepath.Base(path)] = text
		for _, other := range needed {
			if err := addPackage(root, other, files); err != nil {
				return err
			}
		}
	}
	return addTree(root, dir+"/testdata", files)
}

// neededFrom returns the directories outside of kcm/ that a file imports
// packages from, directly or not. It is not ok where one of them is about
// clusters.
func (s *Stage) neededFrom(path string, seen map[string]bool) (needed []string, ok bool, err error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil, false, err
	}
	for _, spec := range syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value) // the file has been parsed
		dir, ours := strings.CutPrefix(imported, s.weave.source.module)
		if !ours || seen[dir] {
			continue
		}
		seen[dir] = true
		if dir == "labs/cluster" || strings.HasPrefix(dir, "labs/cluster/") {
			return nil, false, nil
		}
		if strings.HasPrefix(dir, "kcm/") {
			if s.packages[dir] == nil {
				return nil, false, nil
			}
			continue
		}
		needed = append(needed, dir)
		inside, err := filepath.Glob(filepath.Join(s.weave.source.root, dir, "*.go"))
		if err != nil {
			return nil, false, err
		}
		for _, file := range inside {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			more, ok, err := s.neededFrom(file, seen)
			if err != nil || !ok {
				return nil, false, err
			}
			needed = append(needed, more...)
		}
	}
	return needed, true, nil
}

// addPackage adds the files of a directory, without tests.
func addPackage(root, dir string, files map[string][]byte) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, dir, entry.Name()))
		if err != nil {
			return err
		}
		files[dir+"/"+entry.Name()] = text
	}
	return nil
}

// addTree adds all files below a directory, if there is one.
func addTree(root, dir string, files map[string][]byte) error {
	return fs.WalkDir(os.DirFS(root), dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		files[path], err = os.ReadFile(filepath.Join(root, path))
		return err
	})
}

// changedSince returns the directories of the stage's packages with a file that was not
// there before, or was another one.
func (s *Stage) changedSince(before, now map[string][]byte) []string {
	changed := map[string]bool{}
	for name, text := range now {
		if s.has(name) && (before[name] == nil || !bytes.Equal(before[name], text)) {
			changed[path.Dir(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// build builds the stage's kcm.
func (s *Stage) build(ctx context.Context) error {
	return s.run(ctx, s.directory(), "build", "-ldflags", os.Getenv("KCM_LDFLAGS"), "-o", "bin/", "./kcm/cmd/kcm")
}

// test compiles the stage where the finished code lies, with the stage's files in place
// of those that are there, and vets and tests the packages that are to be tested. So go
// knows a package that is the same in several stages, and does not compile it anew for
// each.
func (s *Stage) test(ctx context.Context) error {
	overlay, err := s.overlay()
	if err != nil {
		return err
	}
	defer os.Remove(overlay)
	args := []string{"test", "-short", "-vet=all", "-overlay", overlay}
	for _, dir := range slices.Sorted(maps.Keys(s.packages)) {
		if s.packages[dir].source.name == "main" || slices.Contains(s.toTest, dir) {
			args = append(args, "./"+dir) // programs import all that is not tested
		}
	}
	return s.run(ctx, ".", args...)
}

// roots returns the directories in which the stage's packages lie: kcm, and those of
// the programs that labs have.
func (s *Stage) roots() []string {
	roots := []string{"kcm"}
	for _, dir := range slices.Sorted(maps.Keys(s.packages)) {
		if !strings.HasPrefix(dir, "kcm/") {
			roots = append(roots, dir)
		}
	}
	return roots
}

// overlay writes, in the form that go wants, which files of the finished code give
// way to which of the stage's, or to none.
func (s *Stage) overlay() (path string, err error) {
	files, err := s.contents()
	if err != nil {
		return "", err
	}
	finished := map[string][]byte{}
	for _, dir := range s.roots() {
		if err := addTree(s.weave.source.root, dir, finished); err != nil {
			return "", err
		}
	}
	replace := map[string]string{}
	for name := range finished {
		if strings.HasSuffix(name, ".go") && files[name] == nil {
			replace[filepath.Join(s.weave.source.root, name)] = ""
		}
	}
	for name, text := range files {
		if s.has(name) && !bytes.Equal(text, finished[name]) {
			replace[filepath.Join(s.weave.source.root, name)] = filepath.Join(s.weave.source.root, s.directory(), name)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "stage-*.json")
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = file.Write(text)
	return file.Name(), err
}

// has tells whether a file is one of the stage's packages.
func (s *Stage) has(name string) bool { return s.packages[path.Dir(name)] != nil }

// run runs a command of go in a directory. What it prints is shown when it fails.
func (s *Stage) run(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(s.weave.source.root, dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s, go %s: %w\n%s", s.name(), args[0], err, out)
	}
	return nil
}
