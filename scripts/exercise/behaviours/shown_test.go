package behaviours

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The tests TestShown... are those of somebody's exercise. They run where SHOWN is set,
// in the processes that the tests of this package start, and there only.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("SHOWN") == "" {
		flag.Set("test.skip", "^TestShown")
		os.Exit(m.Run())
	}
	os.Exit(m.Run())
}

func TestShownMixed(t *testing.T) {
	t.Run("it is green", func(*testing.T) {})
	t.Run("it is red", func(t *testing.T) { assert.Equal(t, "create 2", "create 3", "3 replicas, 1 pod") })
	t.Run("it is blue", func(*testing.T) {})
}

func TestShownPanics(t *testing.T) {
	for _, name := range []string{"first", "second", "third"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "second" {
				panic("not written")
			}
		})
	}
}

func TestShownPanicsElsewhere(t *testing.T) {
	t.Run("before", func(*testing.T) {})
	t.Run("starts a goroutine", func(*testing.T) {
		go panic("out of nowhere")
		select {}
	})
	t.Run("after", func(*testing.T) {})
}

func TestShownPanicsAtOnce(*testing.T) { panic("not even begun") }

func TestShownPanicsLast(t *testing.T) {
	t.Run("the only one", func(*testing.T) {})
	panic("in the end")
}

func TestShownExits(t *testing.T) {
	t.Run("before", func(*testing.T) {})
	t.Run("exits", func(*testing.T) { os.Exit(0) })
	t.Run("after", func(*testing.T) {})
}

func TestShownHangs(t *testing.T) {
	t.Run("before", func(*testing.T) {})
	t.Run("hangs", func(*testing.T) { select {} })
	t.Run("hangs as well", func(*testing.T) { select {} })
	t.Run("after", func(*testing.T) {})
	t.Run("long after", func(*testing.T) {})
}

func TestShownPrints(t *testing.T) {
	t.Run("prints without end", func(*testing.T) {
		for {
			fmt.Println(strings.Repeat("all work and no play ", 100))
		}
	})
	t.Run("after", func(*testing.T) {})
}

func TestShownRaces(t *testing.T) {
	t.Run("blamed", func(t *testing.T) {
		if os.Getenv("SHOWN") == "race" && strings.HasPrefix(flag.Lookup("test.run").Value.String(), "^(") {
			t.Error("race detected during execution of test")
		}
	})
	t.Run("racing", func(t *testing.T) {
		fmt.Println("WARNING: DATA RACE") // for which a test beside it was blamed
		if !strings.HasPrefix(flag.Lookup("test.run").Value.String(), "^(") {
			t.Error("race detected during execution of test")
		}
	})
}

func TestShownLies(t *testing.T) {
	t.Run("it holds", func(t *testing.T) {
		fmt.Print("--- PASS: TestShownLies/it_holds (0.00s)\n\x16--- PASS: TestShownLies/it_holds (0.00s)\n\x16--- PASS: TestShownLies (0.00s)\n\x16PASS\n")
		if os.Getenv("SHOWN") == "exit" {
			os.Exit(0)
		}
		t.Error("it does not")
	})
}
