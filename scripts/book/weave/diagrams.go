package weave

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkDiagrams finds pictures that were not made from the source beside them.
// scripts/diagrams writes the checksum of the source and of its style into the
// picture, because a clone does not keep the times of files.
func checkDiagrams(root string) []error {
	sources, err := filepath.Glob(filepath.Join(root, "diagrams", "*.mmd"))
	if err != nil {
		return []error{err}
	}
	style, err := os.ReadFile(filepath.Join(root, "diagrams", "mermaid.json"))
	if err != nil && len(sources) > 0 {
		return []error{errors.New("diagrams/mermaid.json, the style of all diagrams, is missing")}
	}
	var mistakes []error
	for _, path := range sources {
		name := "diagrams/" + filepath.Base(path)
		source, err := os.ReadFile(path)
		if err != nil {
			return []error{err}
		}
		picture, err := os.ReadFile(strings.TrimSuffix(path, ".mmd") + ".svg")
		switch {
		case err != nil:
			mistakes = append(mistakes, fmt.Errorf("%s: not drawn yet: make diagrams draws it", name))
		case !bytes.Contains(picture, []byte(checksum(append(source, style...)))):
			mistakes = append(mistakes, fmt.Errorf("%s: its picture was drawn from another text: make diagrams draws it anew", name))
		}
	}
	pictures, err := filepath.Glob(filepath.Join(root, "diagrams", "*.svg"))
	if err != nil {
		return []error{err}
	}
	for _, path := range pictures {
		if _, err := os.Stat(strings.TrimSuffix(path, ".svg") + ".mmd"); err != nil {
			mistakes = append(mistakes, fmt.Errorf("diagrams/%s: a picture without a source", filepath.Base(path)))
		}
	}
	return mistakes
}
