package sessions

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kcm-book/kcm-book/scripts/book/chapters"
)

func chapterOf(t *testing.T, number int, source string) *chapters.Chapter {
	t.Helper()
	c, err := chapters.Parse(number, "01-a", &chapters.Page{Path: "README.md", Source: []byte(source)})
	require.NoError(t, err)
	return c
}

func TestABlockIsCutIntoCommandsAndWhatTheyPrint(t *testing.T) {
	t.Parallel()
	block := chapterOf(t, 1, "```console\n"+
		"$ kcm --version\n"+
		"Kubernetes v1.36.3\n"+
		"\n"+
		"a path: C:\\\n"+
		"$ kubectl get pods \\\n"+
		"  -l app=web \\\n"+
		"  --no-headers\n"+
		"web-1\n"+
		"$ true\n"+
		"```\n").Blocks[0]
	all, err := exchanges(block)
	require.NoError(t, err)
	assert.Equal(t, []*exchange{
		{block: block, line: 0, command: "kcm --version\n", shown: "Kubernetes v1.36.3\n\na path: C:\\\n"},
		{block: block, line: 4, command: "kubectl get pods \\\n  -l app=web \\\n  --no-headers\n", shown: "web-1\n"},
		{block: block, line: 8, command: "true\n"},
	}, all)
	text := ""
	for _, e := range all {
		text += prompt + e.command + e.shown
	}
	assert.Equal(t, block.Body, text, "together they are the block")
}

func TestABlockThatBeginsWithOutputIsAMistake(t *testing.T) {
	t.Parallel()
	_, err := exchanges(chapterOf(t, 1, "\n```console\nkcm --version\n```\n").Blocks[0])
	assert.EqualError(t, err,
		`chapters/01-a/README.md:2: a console block begins with a command: "kcm --version" has no "$ " before it`)
	none, err := exchanges(chapterOf(t, 1, "```console\n```\n").Blocks[0])
	require.NoError(t, err)
	assert.Empty(t, none)
}

func TestOnlyCommandsThatLookAreRepeated(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]bool{
		"kubectl get pods":                                      true,
		"kubectl -n shop get pods | sort | uniq -c":             true,
		"kubectl logs web 2>&1 | tail -n 1":                     true,
		"kubectl get pods 2> /dev/null":                         true,
		"kubectl auth can-i list pods":                          true,
		"grep -c error /tmp/kcm.log":                            true,
		"cat /tmp/kcm.log":                                      true,
		"says /tmp/kcm.log 'up.*' 2":                            true,
		"curl -sk 'https://127.0.0.1:10257/healthz?a&b'":        true,
		"kubectl get pods -o go-template='{{.a}}; {{.b}}'":      true,
		"curl -sk https://127.0.0.1:10257/healthz; echo \"$?\"": true,
		"kubectl get pods -o name && echo all":                  true,
		"kubectl apply -f web.yaml":                             false,
		"kubectl delete pods web":                               false,
		"kubectl gets":                                          false,
		"grepped x":                                             false,
		"cat web.yaml | kubectl apply -f -":                     false,
		"head -n 1 names | xargs -n 1 kubectl delete pod":       false,
		"kubectl get secret a -o yaml > /tmp/a.yaml":            false,
		"ls labs >> /tmp/list":                                  false,
		"kubectl get pods; kubectl delete pods web":             false,
		"kubectl get pods && kubectl delete pods web":           false,
		"kubectl get pods -o name | tee /tmp/pods":              false,
		"curl -X POST https://127.0.0.1:10257/debug":            false,
		"curl --data a=b https://127.0.0.1:10257/debug":         false,
		"kubectl logs -f web & kubectl delete pods web":         false,
		"kubectl get pods -o name | while read p; do a; done":   false,
	} {
		assert.Equal(t, want, (&exchange{command: command + "\n"}).onlyLooks(), command)
	}
}

func TestAChapterIsOneSession(t *testing.T) {
	t.Parallel()
	all, err := exchangesOf(chapterOf(t, 1, "```console\n$ a\n```\n\n```sh\nmake\n```\n\n```console\n$ b\n$ c\n```\n"))
	require.NoError(t, err)
	var commands []string
	for _, e := range all {
		commands = append(commands, e.command)
	}
	assert.Equal(t, []string{"a\n", "make", "b\n", "c\n"}, commands)
	_, err = exchangesOf(chapterOf(t, 1, "```console\n$ a\n```\n\n```console\nb\n```\n"))
	assert.ErrorContains(t, err, "chapters/01-a/README.md:5: a console block begins with a command")
}
