package chapters

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASizeCountsWhatAReaderSeesWithoutUnfolding(t *testing.T) {
	t.Parallel()
	p := &Page{Source: []byte("# A title\n\nThree more words.\n\n<sub>a caption</sub>\n```go kcm/app a\nfunc a() {\n}\n```\n\n```go labs/00-a c\nc\n```\n\n" +
		"```console\n$ ls\n```\n\n<details><summary>The code</summary>\n\nNot these.\n\n```go kcm/app b\nb\n```\n\n</details>\n\nLast.\n\nBack: [what is no prose](a.md).\n")}
	assert.Equal(t, Size{Words: 7, Go: 3, Sessions: 1, Lines: 29, Open: 21}, p.Size())
	assert.Empty(t, p.Size().Exceeds(Size{Words: 7, Go: 3, Sessions: 1}))
	assert.Equal(t, "3 visible lines of Go, and may have 2", p.Size().Exceeds(Size{Words: 7, Go: 2, Sessions: 1}))
}

func TestAChapterSaysHowLongItTakesOnceItIsFilled(t *testing.T) {
	t.Parallel()
	c, err := Parse(3, "03-a",
		&Page{Path: "README.md", Source: []byte("# A\n\n<sub>To read: .</sub>\n\n" + strings.Repeat("word ", 1400) + "\n")},
		&Page{Path: "code.md", Source: []byte("# B\n\n" + strings.Repeat("word ", 9000) + "\n")})
	require.NoError(t, err)
	texts, err := c.Fill(nil)
	require.NoError(t, err)
	assert.Contains(t, string(texts[0]), "<sub>To read: about 10 minutes. With its exercises and the lab: about 15.</sub>")
}
