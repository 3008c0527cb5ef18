package sessions

import (
	"regexp"
	"slices"
	"strings"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

const prompt = "$ "

// exchange is a command in a block and what the chapter shows of its output.
type exchange struct {
	block *chapters.Block
	// line is that of the command in the block's body, counted from 0.
	line    int
	command string
	shown   string
}

func exchangesOf(chapter *chapters.Chapter) ([]*exchange, error) {
	var all []*exchange
	for _, block := range chapter.Blocks {
		switch {
		case block.Shell():
			for i, line := range strings.Split(strings.TrimSuffix(block.Body, "\n"), "\n") {
				all = append(all, &exchange{block: block, line: i, command: line})
			}
		case block.Console():
			more, err := exchanges(block)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

// exchanges cuts a block into commands and their output.
func exchanges(block *chapters.Block) ([]*exchange, error) {
	var all []*exchange
	continued := false
	for i, line := range slices.Collect(strings.Lines(block.Body)) {
		command, begins := strings.CutPrefix(line, prompt)
		switch {
		case continued:
			all[len(all)-1].command += line
		case begins:
			all = append(all, &exchange{block: block, line: i, command: command})
		case len(all) == 0:
			return nil, block.Errorf("a console block begins with a command: %q has no %q before it",
				strings.TrimSpace(line), prompt)
		default:
			all[len(all)-1].shown += line
			continue
		}
		continued = strings.HasSuffix(strings.TrimSpace(line), `\`)
	}
	return all, nil
}

var (
	// looks matches commands that change nothing, filters what can stand behind them.
	looks = regexp.MustCompile(
		`^(kubectl (-n \S+ )?(get|describe|events|logs|auth can-i)|says|story|grep|curl|ls|cat|head|tail|wc) `)
	filters = regexp.MustCompile(`^(sort|uniq|wc|head|tail|grep|cut|tr|sed|awk|jq|base64|cat|cmp|echo)\b`)
	// harmless are parts that can hold any sign, and output that goes nowhere.
	harmless = regexp.MustCompile(`'[^']*'|"[^"]*"|2>&1|[12]?> ?/dev/null`)
	between  = regexp.MustCompile(`&&|\|\||[|;]`)
	// changes matches output that goes into a file, commands in the background, and requests of curl that are not GET.
	changes = regexp.MustCompile(`[&>]|^curl .*(-X|-d|--request|--data)\b`)
)

// onlyLooks tells whether the command changes nothing, so that it can be repeated.
func (e *exchange) onlyLooks() bool {
	parts := between.Split(harmless.ReplaceAllString(strings.TrimSpace(e.command), ""), -1)
	return looks.MatchString(parts[0]+" ") && !slices.ContainsFunc(parts, func(part string) bool {
		part = strings.TrimSpace(part)
		return changes.MatchString(part) || part != "" && !looks.MatchString(part+" ") && !filters.MatchString(part)
	})
}
