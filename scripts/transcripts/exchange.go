package main

import (
	"regexp"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book"
)

const prompt = "$ "

// exchange is a command in a block and what the chapter shows of its output.
type exchange struct {
	block *book.Block
	// line is that of the command in the block's body, counted from 0.
	line    int
	command string
	shown   string
	// typed is the command as the chapter has it, prompt and all.
	typed string
}

// exchanges cuts a block into commands and their output.
func exchanges(block *book.Block) ([]*exchange, error) {
	var all []*exchange
	continued := false
	number := -1
	for line := range strings.Lines(block.Body) {
		number++
		switch {
		case continued:
			last := all[len(all)-1]
			last.typed += line
			last.command += line
		case strings.HasPrefix(line, prompt):
			all = append(all, &exchange{block: block, line: number, typed: line, command: strings.TrimPrefix(line, prompt)})
		case len(all) == 0:
			return nil, block.Errorf("a console block begins with a command: %q has no %q before it", strings.TrimSpace(line), prompt)
		default:
			all[len(all)-1].shown += line
			continue
		}
		continued = strings.HasSuffix(strings.TrimSpace(line), `\`)
	}
	return all, nil
}

// looks matches commands that change nothing, so that they can be repeated.
var looks = regexp.MustCompile(`^(kubectl (-n \S+ )?(get|describe|events|logs|auth can-i)|grep|curl|ls|cat|head|tail|wc) `)

func (e *exchange) onlyLooks() bool { return looks.MatchString(e.command) }
