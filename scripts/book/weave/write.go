package weave

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"regexp"
	"slices"
	"strings"
)

// recordName is the file that remembers what was written, so that what a reader has changed is not lost.
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
	record := map[string]string{} // the checksums of the files that have been written before
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %[1]s/%s: %w; remove %[1]s to have the stage written anew",
			s.directory(), recordName, err)
	}
	for name := range files {
		record[name] += "" // what is not recorded may be there all the same
	}
	var changed []string // neither as it was written nor as it is to be
	for _, name := range slices.Sorted(maps.Keys(record)) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && checksum(text) != record[name] && !bytes.Equal(text, files[name]) {
			changed = append(changed, s.directory()+"/"+name)
		}
	}
	if len(changed) > 0 {
		return nil, fmt.Errorf("you have changed %s: go on there with go build ./kcm/cmd/kcm, "+
			"or remove %s to have the stage written anew", strings.Join(changed, " and "), s.directory())
	}
	for name := range record {
		if record[name] = checksum(files[name]); files[name] != nil {
			err = WriteFile(filepath.Join(dir, name), files[name])
		} else if err = os.Remove(filepath.Join(dir, name)); err == nil || errors.Is(err, fs.ErrNotExist) {
			delete(record, name)
			err = nil
		}
		if err != nil {
			return nil, err
		}
	}
	text, _ = json.MarshalIndent(record, "", "\t") // it is JSON
	return files, WriteFile(filepath.Join(dir, recordName), text)
}

// WriteFile writes a file unless it is there already: its time tells go what has to be built and tested again.
func WriteFile(path string, text []byte) error {
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// WriteFiles makes a directory have some files, by their paths in it, and none besides: what another checkout has left
// there, go would compile.
func WriteFiles(dir string, files map[string][]byte) error {
	err := os.RemoveAll(dir)
	for name, text := range files {
		err = errors.Join(err, WriteFile(filepath.Join(dir, filepath.FromSlash(name)), text))
	}
	return err
}

func checksum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

func (s *Stage) contents() (map[string][]byte, error) {
	files := map[string][]byte{}
	if err := s.copy(files, "go.mod", "go.sum"); err != nil {
		return nil, err
	}
	for dir, p := range s.packages {
		for _, file := range p.files {
			text, err := file.formatted()
			if err != nil {
				return nil, fmt.Errorf("%s: %s/%s: %w", s.name(), dir, file.name, err)
			}
			files[dir+"/"+file.name] = text
			for _, embedded := range embeds.FindAllStringSubmatch(file.text, -1) {
				if err := s.copy(files, dir+"/"+embedded[1]); err != nil {
					return nil, err
				}
			}
		}
		if p.finished {
			names, _ := fs.Glob(os.DirFS(s.weave.source.root), dir+"/*_test.go") // the pattern is well-formed
			if err := s.addTests(dir, slices.DeleteFunc(names, p.lacksTested), files); err != nil {
				return nil, err
			}
		}
	}
	return files, s.addExercises(files)
}

// embeds matches what puts a file into the program.
var embeds = regexp.MustCompile(`(?m)^\s*//go:embed (.*)$`)

// copy adds files of the repository as they are.
func (s *Stage) copy(files map[string][]byte, names ...string) error {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(s.weave.source.root, name))
		if err != nil {
			return err
		}
		files[name] = text
	}
	return nil
}

// lacksTested tells whether a file of tests is named after one that the stage does not have yet.
func (p *StagePackage) lacksTested(test string) bool {
	name := strings.TrimSuffix(path.Base(test), "_test.go") + ".go"
	return slices.ContainsFunc(p.source.files, func(f *File) bool { return f.name == name }) &&
		!slices.ContainsFunc(p.files, func(f *StageFile) bool { return f.name == name })
}

// addExercises adds the tests of the exercises, also those of packages that go on.
func (s *Stage) addExercises(files map[string][]byte) error {
	number := s.number
	if s.weave.step(s.at) != "" {
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
		var names []string
		for _, name := range e.TestFiles {
			names = append(names, e.Dir+"/"+name)
		}
		if err := s.addTests(e.Dir, names, files); err != nil {
			return err
		}
	}
	return nil
}

// addTests adds files of unit tests of a package, their data, and what they import from labs/. Tests that the stage
// cannot have are left out: of what it lacks of kcm, or with a cluster; those are the labs' business.
func (s *Stage) addTests(dir string, names []string, files map[string][]byte) error {
	for _, name := range names {
		needed := map[string][]byte{}
		if ok, err := s.addWithImports(name, needed); err != nil {
			return err
		} else if ok {
			maps.Copy(files, needed)
		}
	}
	addData := func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() {
			return nil
		}
		return errors.Join(err, s.copy(files, name))
	}
	return fs.WalkDir(os.DirFS(s.weave.source.root), dir+"/testdata", addData)
}

// addWithImports adds a file and the packages of labs/ that it imports, directly or not, and tells whether the stage
// can have it.
func (s *Stage) addWithImports(name string, files map[string][]byte) (bool, error) {
	if err := s.copy(files, name); err != nil {
		return false, err
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), name, files[name], parser.ImportsOnly)
	if err != nil {
		return false, err
	}
	for _, spec := range syntax.Imports {
		_, imported := Imported(spec)
		dir, ours := strings.CutPrefix(imported, s.weave.source.module)
		if !ours || s.packages[dir] != nil {
			continue
		}
		if strings.HasPrefix(dir, "kcm/") || strings.HasPrefix(dir+"/", "labs/cluster/") {
			return false, nil
		}
		others, _ := fs.Glob(os.DirFS(s.weave.source.root), dir+"/*.go") // the pattern is well-formed
		for _, other := range others {
			if files[other] != nil || strings.HasSuffix(other, "_test.go") {
				continue
			}
			if ok, err := s.addWithImports(other, files); err != nil || !ok {
				return false, err
			}
		}
	}
	return true, nil
}

// changedSince returns the directories of the stage's packages with a file that was not
// there before, or was another one.
func (s *Stage) changedSince(before, now map[string][]byte) []string {
	changed := map[string]bool{}
	for name, text := range now {
		if s.packages[path.Dir(name)] != nil && (before[name] == nil || !bytes.Equal(before[name], text)) {
			changed[path.Dir(name)] = true
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// test compiles the stage, and vets and tests the packages that are to be tested. With
// -trimpath go knows a package that is the same in several stages, and compiles it once.
func (s *Stage) test(ctx context.Context) error {
	args := []string{"test", "-short", "-vet=all", "-timeout=30m"}
	for _, dir := range slices.Sorted(maps.Keys(s.packages)) {
		if s.packages[dir].source.name == "main" || slices.Contains(s.toTest, dir) {
			args = append(args, "./"+dir) // programs import all that is not tested
		}
	}
	return s.run(ctx, args...)
}

// run runs a command of go in the stage. What it prints is shown when it fails.
func (s *Stage) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(s.weave.source.root, s.directory())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s, go %s: %w\n%s", s.name(), args[0], err, out)
	}
	return nil
}
