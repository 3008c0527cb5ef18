package behaviours

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program is this binary, in which the tests TestShown... are to run.
func program(shown string) *Program {
	return &Program{Path: os.Args[0], Env: []string{"SHOWN=" + shown}, Limit: time.Minute}
}

// told runs tests and returns what is told: a line for each behaviour, ticked or not.
func told(t *testing.T, p *Program, tests ...string) (lines []string, said map[string]string) {
	t.Helper()
	said = map[string]string{}
	require.NoError(t, p.Run(t.Context(), tests, func(b Behaviour) {
		line := "✗ " + Sentence(b.Test)
		if b.Holds {
			line = "✓ " + Sentence(b.Test)
		}
		lines = append(lines, line)
		said[Sentence(b.Test)] = b.Said
	}))
	return lines, said
}

func TestWhatHoldsAndWhatDoesNotIsToldInTheOrderOfTheTests(t *testing.T) {
	t.Parallel()
	lines, said := told(t, program("1"), "TestShownMixed")
	assert.Equal(t, []string{"✓ it is green", "✗ it is red", "✓ it is blue"}, lines)
	assert.Equal(t, []string{"3 replicas, 1 pod", "expected  create 2", "seen      create 3"}, Tell(said["it is red"]))
}

func TestATestThatPanicsHasSaidSoAndTheOthersGetTheirAnswers(t *testing.T) {
	t.Parallel()
	lines, said := told(t, program("1"), "TestShownPanics", "TestShownPanicsElsewhere")
	assert.ElementsMatch(t, []string{"✓ first", "✗ second", "✓ third"}, lines[:3])
	assert.Equal(t, []string{"✓ before", "✗ starts a goroutine", "✓ after"}, lines[3:])
	assert.Contains(t, strings.Join(Tell(said["second"]), ""), "panic: not written")
	assert.NotContains(t, strings.Join(Tell(said["second"]), ""), "/src/testing/")
	assert.Contains(t, said["starts a goroutine"], "panic: out of nowhere")
}

func TestAPanicOutsideOfBehavioursIsOne(t *testing.T) {
	t.Parallel()
	lines, said := told(t, program("1"), "TestShownPanicsAtOnce", "TestShownPanicsLast")
	assert.Equal(t, []string{"✗ shown panics at once", "✓ the only one", "✗ shown panics last"}, lines)
	assert.Contains(t, said["shown panics at once"], "panic: not even begun")
	assert.Contains(t, said["shown panics last"], "panic: in the end")
}

func TestATestThatEndsTheProcessDoesNotHold(t *testing.T) {
	t.Parallel()
	lines, said := told(t, program("1"), "TestShownExits")
	assert.Equal(t, []string{"✓ before", "✗ exits", "✓ after"}, lines)
	assert.Contains(t, said["exits"], "unexpected call to os.Exit(0) during test")
}

func TestWhatHangsIsEndedAndAfterTheSecondNothingElseIsTried(t *testing.T) {
	t.Parallel()
	p := program("1")
	p.Limit = 10 * time.Second // the process has to have started by then, on a machine however busy
	lines, said := told(t, p, "TestShownHangs")
	assert.Equal(t, []string{"✓ before", "✗ hangs", "✗ hangs as well"}, lines)
	assert.Contains(t, said["hangs"], "it did not end in time")
	assert.Contains(t, said["hangs as well"], "it did not end in time")
}

func TestWhatPrintsWithoutEndIsEndedLongBeforeItsTime(t *testing.T) {
	t.Parallel()
	p := program("1")
	p.Limit = 10 * time.Minute
	begin := time.Now()
	lines, said := told(t, p, "TestShownPrints")
	assert.Equal(t, []string{"✗ prints without end", "✓ after"}, lines)
	assert.Contains(t, said["prints without end"], "it printed too much")
	assert.Less(t, len(said["prints without end"]), 2*maxSaid)
	assert.Less(t, time.Since(begin), p.Limit/2)
}

func TestADataRaceIsTheFaultOfTheTestThatHasItAlone(t *testing.T) {
	t.Parallel()
	lines, _ := told(t, program("race"), "TestShownRaces")
	assert.Equal(t, []string{"✓ blamed", "✗ racing"}, lines)
}

func TestATestThatDoesNotExistIsNoBehaviourThatHolds(t *testing.T) {
	t.Parallel()
	lines, _ := told(t, program("1"), "TestShownNowhere")
	assert.Equal(t, []string{"✗ shown nowhere"}, lines)
}

func TestByItselfOnlyWhatHasRunToItsEndHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, shown, test string
		holds             bool
	}{
		{"what holds", "1", "TestShownMixed/it_is_green", true},
		{"what does not", "1", "TestShownMixed/it_is_red", false},
		{"what prints that it holds and fails", "1", "TestShownLies/it_holds", false},
		{"what prints that it holds and ends the process", "exit", "TestShownLies/it_holds", false},
		{"what ends the process", "1", "TestShownExits/exits", false},
		{"what another did not end by ending the process", "1", "TestShownExits/after", true},
		{"what panics", "1", "TestShownPanics/second", false},
		{"what does not exist", "1", "TestShownMixed/it_is_yellow", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, err := program(c.shown).Each(t.Context(), []string{c.test})
			require.NoError(t, err)
			assert.Equal(t, c.holds, found[0].Holds, found[0].Said)
		})
	}
}

func TestAnInterruptEndsWhatRuns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := program("1")
	p.Command = []string{"sh", "-c", `"$@" & echo $!; wait`, "sh"}
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := p.Try(ctx, "TestShownHangs/hangs", "")
	require.ErrorIs(t, err, context.Canceled)
}

func TestSentencesAreTheNamesOfTestsInWords(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "maxUnavailable is rounded down", Sentence("TestBounds/maxUnavailable_is_rounded_down"))
	assert.Equal(t, "a sync of UID counts", Sentence("TestX/a_sync_of_UID_counts"))
	assert.Equal(t, "a bound holds", Sentence("TestABoundHolds"))
	assert.Equal(t, "indexes are a set", Sentence("TestIndexesAreASet"))
}

func TestWhatATestSaysIsCutIntoSituationExpectedAndSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said string
		told []string
	}{
		"testify": {strings.Join([]string{
			"    decide_test.go:88: ", "        \tError Trace:\t/x/decide_test.go:88", "        \tError:      \tNot equal: ",
			"        \t            \texpected: \"create 2\\nand wait\"", "        \t            \tactual  : \"create 3\"", "        \t            \t",
			"        \t            \tDiff:", "        \t            \t--- Expected", "        \tTest:       \tTestDecide/x", "        \tMessages:   \t3 replicas",
			"        \t            \t1 pod", "",
		}, "\n"), []string{"3 replicas\n1 pod", "expected  create 2\nand wait", "seen      create 3"}},
		"a text of one's own": {"    model_test.go:12: your cache was 2 behind\n", []string{"your cache was 2 behind"}},
		"with what is logged meanwhile": {strings.Join([]string{
			"        \tError:      \tNot equal: ", `E0101 00:30:00.000000   12 loop.go:99] "Sync failed" err="no"`,
			"        \t            \texpected: 2", "E0101 00:30:00.000000      12 loop.go:99] \"Sync failed\" err=<", "\tno", "\tand no", " > pod=\"a/b\"",
			"        \t            \tactual  : 3", "I1231 23:59:59.999999 1234567 loop.go:9] ", "        \tMessages:   \t1 pod",
			"W0101 00:30:00.000000       1 reflector.go:1] watch ended", "",
		}, "\n"), []string{"1 pod", "expected  2", "seen      3"}},
		"a panic after what is logged": {strings.Join([]string{
			`E0101 00:30:00.000000   12 loop.go:99] "Observed a panic" panic="oh"`, "panic: oh", "\tpanic: and no", "", "goroutine 12 [running]:",
			module + "kcm/x.(*Loop[...]).sync.func1({0x1, 0x2}, ...)", "\t/w/kcm/x/loop.go:12 +0x1d", "testing.tRunner(0x1)", "\t/go/src/testing/testing.go:9",
			"created by " + module + "kcm/x.Run in goroutine 7", "\t/w/kcm/x/loop.go:99", "",
		}, "\n"), []string{"panic: oh\n\tpanic: and no\n\n  kcm/x/loop.go:12  (*Loop).sync"}},
		"nothing": {"=== RUN   TestX\n", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.told, Tell(c.said))
		})
	}
}

// dumped is what a program prints of a goroutine, whose calls are of the package kcm/x, in the order of the stack.
func dumped(state string, calls ...string) string {
	text := "goroutine 12 gp=0x1 m=nil [" + state + ", 5 minutes]:\nruntime.gopark(0x1?)\n\t/go/src/runtime/proc.go:1 +0x1 fp=0x1\n"
	for _, c := range calls {
		function, file, _ := strings.Cut(c, " ")
		text += module + "kcm/x." + function + "(0x1, {0x2, 0x3})\n\t" + file + " +0x1 fp=0x1\n"
	}
	return text + "created by testing.(*T).Run in goroutine 1\n\t/go/src/testing/testing.go:9 +0x1\n\n"
}

func TestOfAProgramThatHangsTheMethodThatDoesNotReturnIsNamed(t *testing.T) {
	t.Parallel()
	idle := dumped("chan receive") + dumped("select", "(*Loop).Run /w/kcm/x/loop.go:3") + dumped("GC worker (idle)")
	waits := dumped("sync.Mutex.Lock", "(*Notes).Done /w/kcm/x/notes.go:7", "TestNotes.func2.1 /w/kcm/x/notes_test.go:30")
	inTest := dumped("sync.WaitGroup.Wait", "TestNotes /w/kcm/x/notes_test.go:31")
	for name, c := range map[string]struct {
		dump, said string
		certain    bool
	}{
		"a lock": {idle + inTest + waits, "(*Notes).Done does not return: it waits for a lock that an earlier call has kept, or takes one twice\n" +
			"  kcm/x/notes.go:7  (*Notes).Done\n  kcm/x/notes_test.go:30  TestNotes\n", true},
		"while another runs": {idle + waits + dumped("runnable"), "(*Notes).Done does not return: it waits for a lock that an earlier call has kept, or takes one twice\n" +
			"  kcm/x/notes.go:7  (*Notes).Done\n  kcm/x/notes_test.go:30  TestNotes\n", false},
		"a channel": {idle + dumped("chan receive (durable), synctest bubble 1", "start /w/kcm/x/slow.go:9", "TestStart /w/kcm/x/slow_test.go:3"),
			"start does not return: it waits (chan receive)\n  kcm/x/slow.go:9  start\n  kcm/x/slow_test.go:3  TestStart\n", true},
		"a loop": {idle + dumped("running", "start /w/kcm/x/slow.go:9", "TestStart /w/kcm/x/slow_test.go:3"),
			"start does not return: it runs without an end\n  kcm/x/slow.go:9  start\n  kcm/x/slow_test.go:3  TestStart\n", false},
		"the test itself": {idle + inTest, "", false},
		"nothing":         {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, certain := hang(c.dump)
			assert.Equal(t, c.said, said)
			assert.Equal(t, c.certain, certain)
		})
	}
}

func TestWhatHasNotBegunWhenAnotherHangsDoesNotHang(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		marks string
		want  []string
	}{
		"one waits for its turn":              {"=== RUN X\n\x16=== RUN X/a\n\x16=== PAUSE X/a\n\x16=== RUN X/b", []string{"X/b"}},
		"and has had it":                      {"=== RUN X\n\x16=== RUN X/a\n\x16=== PAUSE X/a\n\x16=== RUN X/b\n\x16=== CONT X/a", []string{"X/a", "X/b"}},
		"it can be no other":                  {"=== RUN X\n\x16=== RUN X/a\n\x16=== PAUSE X/a\n\x16=== RUN X/b\n\x16--- PASS: X/b", []string{"X/a", "X/b"}},
		"the only one waits for its own turn": {"=== RUN X\n\x16=== PAUSE X", []string{"X"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := read("\x16" + c.marks + "\nSIGQUIT: quit\n" + dumped("select", "sync /w/kcm/x/sync.go:9", "TestX /w/kcm/x/sync_test.go:3"))
			assert.Equal(t, c.want, o.Behaviours())
		})
	}
}

func TestOfDataRacesTheFirstIsTold(t *testing.T) {
	t.Parallel()
	report := func(file string) string {
		access := "  " + module + "kcm/x.(*Notes).Done()\n      /w/kcm/x/" + file + ":7 +0x1\n  testing.tRunner()\n      /go/src/testing/testing.go:9 +0x1\n"
		return "==================\nWARNING: DATA RACE\nRead at 0x00c by goroutine 8:\n" + access + "\nPrevious write at 0x00c by goroutine 7:\n" + access +
			"\nGoroutine 8 (running) created at:\n" + access + "==================\n"
	}
	call := "  kcm/x/first.go:7  (*Notes).Done"
	assert.Equal(t, []string{"WARNING: DATA RACE\nRead at 0x00c by goroutine 8:\n" + call + "\n\nPrevious write at 0x00c by goroutine 7:\n" + call},
		Tell(report("first.go")+report("second.go")+"    testing.go:9: race detected during execution of test\n"))
}

func TestADeadlockIsToldAsWhatDoesNotReturn(t *testing.T) {
	t.Parallel()
	said := "panic: deadlock: all goroutines in bubble are blocked [recovered, repanicked]\n\n" +
		dumped("running", "TestStart /w/kcm/x/slow_test.go:3") + dumped("chan receive (durable)", "start /w/kcm/x/slow.go:9", "TestStart.func1 /w/kcm/x/slow_test.go:5")
	assert.Equal(t, []string{"start does not return: it waits (chan receive)\n  kcm/x/slow.go:9  start\n  kcm/x/slow_test.go:5  TestStart"}, Tell(said))
}

func TestWhatIsNotWrittenYetIsNamed(t *testing.T) {
	assert.Equal(t, "judge", Needs("panic: yours: judge [recovered, repanicked]\n\ngoroutine 12 [running]:\n"))
	assert.Equal(t, "backoff", Needs("    model_test.go:585: [rapid] panic after 0 tests: yours: backoff\n"))
	assert.Empty(t, Needs("panic: runtime error: index out of range\n"))
	assert.Empty(t, Needs("    act_test.go:12: yours: judge\n"))
}
