package app

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"flags alone are fine", nil, "started"},
		{"a word is refused", []string{"start"}, `unexpected arguments ["start"]; kcm takes flags only`},
		{"the value of a switch is a word without its =", []string{"false"}, `unexpected arguments ["false"]; kcm takes flags only`},
		{"an empty argument is let pass", []string{""}, "started"},
		{"several empty arguments are let pass", []string{"", "", ""}, "started"},
		{"a word after an empty argument is refused", []string{"", "start"}, `unexpected arguments ["" "start"]; kcm takes flags only`},
		{"a word before an empty argument is refused", []string{"start", ""}, `unexpected arguments ["start" ""]; kcm takes flags only`},
		{"all words are named at once", []string{"start", "now"}, `unexpected arguments ["start" "now"]; kcm takes flags only`},
		{"a blank is not nothing and is refused", []string{" "}, `unexpected arguments [" "]; kcm takes flags only`},
		{"what looks like a flag and stands after -- is not", []string{"--leader-elect"}, `unexpected arguments ["--leader-elect"]; kcm takes flags only`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			seen := "started"
			if err := noArguments(&cobra.Command{Use: "kcm"}, test.args); err != nil {
				seen = err.Error()
			}
			assert.Equal(t, test.want, seen, "kcm is started with the arguments %q", test.args)
		})
	}
}
