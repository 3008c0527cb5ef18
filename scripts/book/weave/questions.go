package weave

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// questionsPage has questions as headings, and below each a short answer.
const questionsPage = "chapters/questions.md"

// sectionLink is a link to a section of a chapter.
var sectionLink = regexp.MustCompile(`\]\(\d\d-[^)]+/[a-zA-Z0-9-]+\.md#[^)]+\)`)

// checkQuestions finds questions whose answer does not lead to the section that explains it and to the script that shows
// it, and steps of labs that are not there. That the links themselves are right is checked with all links.
func checkQuestions(root string) []error {
	text, err := os.ReadFile(filepath.Join(root, questionsPage))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []error{err}
	}
	var mistakes []error
	line := 1
	for i, part := range strings.Split(string(text), "\n### ") {
		question, answer, _ := strings.Cut(part, "\n")
		if i > 0 {
			line++ // that of the heading
			for _, wrong := range missingIn(root, question, answer) {
				mistakes = append(mistakes, fmt.Errorf("%s:%d: %q %s", questionsPage, line, question, wrong))
			}
		}
		line += strings.Count(part, "\n")
	}
	return mistakes
}

// missingIn says what the answer to a question lacks.
func missingIn(root, question, answer string) []string {
	var missing []string
	if !strings.HasSuffix(question, "?") {
		missing = append(missing, "is no question")
	}
	if !sectionLink.MatchString(answer) {
		missing = append(missing, "does not link to the section of a chapter that explains it")
	}
	scripts := scriptLink.FindAllStringSubmatch(answer, -1)
	if len(scripts) == 0 {
		missing = append(missing, "does not link to a scenario or a lab that shows it")
	}
	for _, match := range scripts {
		words, path := match[1], match[2]
		script, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err == nil && filepath.Base(path) == "lab.txtar" && !strings.Contains("\n"+string(script), "\nstep "+words+"\n") {
			missing = append(missing, fmt.Sprintf("names a step that %s does not have: %q", path, words))
		}
	}
	return missing
}
