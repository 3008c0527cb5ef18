package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	var out bytes.Buffer
	command := newCommand(root)
	command.SetArgs(args)
	command.SetOut(&out)
	err = command.ExecuteContext(t.Context())
	return out.String(), err
}

// These are not parallel: all commands of cobra share pflag.CommandLine.

func TestTheHelpListsTheVerbs(t *testing.T) {
	out, err := execute(t)
	require.NoError(t, err)
	for _, line := range []string{`(?m)^  fill +bring`, `(?m)^  stages +write`, `(?m)^  transcripts +run`} {
		assert.Regexp(t, line, out)
	}
	out, err = execute(t, "transcripts", "--help")
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^  check +say where.*\n  fill +put in`, out)
}

func TestWhatIsTypedWrongIsAnsweredWithWhatThereIs(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "fil" for "book"`:            {"fil"},
		`unknown command "03" for "book transcripts"`: {"transcripts", "03"},
		"there is no chapter 99: the book has 00 to":  {"transcripts", "check", "99"},
		"unknown flag: --no":                          {"check", "--no"},
		"accepts 1 arg(s), received 0":                {"stage"},
	} {
		_, err := execute(t, args...)
		assert.ErrorContains(t, err, want)
	}
	_, err := execute(t, "stage", "x")
	assert.ErrorContains(t, err, "there is no chapter x: the book has 00 to")
}
