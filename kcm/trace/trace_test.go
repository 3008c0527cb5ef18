package trace

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

// heard returns the steps that nobody has taken yet.
func heard(t *testing.T, l *Listener) (all []Step) {
	t.Helper()
	for line := range bytes.Lines(l.Take()) {
		var step Step
		require.NoError(t, json.Unmarshal(line, &step), "%s", line)
		all = append(all, step)
	}
	return all
}

func kinds(steps []Step) string {
	var all []string
	for _, step := range steps {
		all = append(all, string(step.What))
	}
	return strings.Join(all, " ")
}

// answers is a transport that answers with a code, or with an error if it is 0.
type answers int

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, errors.New("the connection is broken off")
	}
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// takesTwoSeconds is a transport that answers after two seconds.
type takesTwoSeconds struct{ next http.RoundTripper }

func (s takesTwoSeconds) RoundTrip(request *http.Request) (*http.Response, error) {
	time.Sleep(2 * time.Second)
	return s.next.RoundTrip(request)
}

func TestTheStepsOfASyncHaveItsNumber(t *testing.T) {
	t.Parallel()
	l := Listen("shop")
	defer l.Stop()
	ctx, sync := Begin(t.Context(), "replicaset-controller", cache.NewObjectName("shop", "web"))
	Sees(ctx, func() []slog.Attr { return []slog.Attr{slog.Int("want", 3)} })
	Decides(ctx, func() []slog.Attr { return []slog.Attr{slog.Int("create", 3)} })
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/shop/pods", nil)
	_, err := Writes(answers(http.StatusCreated)).RoundTrip(request)
	require.NoError(t, err)
	sync.End(errors.New("no more"))

	all := heard(t, l)
	require.Equal(t, "begun observed decided done ended", kinds(all))
	for _, step := range all {
		assert.Equal(t, all[0].Sync, step.Sync, "the number of the sync at %q", step.What)
		assert.Equal(t, "shop/web of replicaset-controller", step.Namespace+"/"+step.Name+" of "+step.Loop)
	}
	assert.Equal(t, map[string]any{"want": 3.0}, all[1].Facts)
	assert.Equal(t, "POST /api/v1/namespaces/shop/pods", all[3].Request)
	assert.Equal(t, http.StatusCreated, all[3].Code)
	assert.Equal(t, "no more", all[4].Error)
}

func TestWhatIsReadIsNotToldAndALostAnswerIs(t *testing.T) {
	t.Parallel()
	l := Listen("lost")
	defer l.Stop()
	ctx, _ := Begin(t.Context(), "loop", cache.NewObjectName("lost", "web"))
	read := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil)
	_, err := Writes(answers(http.StatusOK)).RoundTrip(read)
	require.NoError(t, err)
	_, err = Writes(answers(0)).RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodDelete, "/api/v1/pods/a", nil))
	require.Error(t, err)

	all := heard(t, l)
	require.Equal(t, "begun done", kinds(all))
	assert.Equal(t, "DELETE /api/v1/pods/a: the connection is broken off", all[1].Request+": "+all[1].Error)
	assert.Zero(t, all[1].Code)
}

//exercise:race
func TestHear(t *testing.T) {
	t.Parallel()
	check := func(behaviour string, test func(*testing.T, *Listener)) {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, &Listener{news: make(chan struct{}, 1)}) })
		})
	}
	// kept returns the steps that were kept, of long ones only how long they are, and how many are lost.
	kept := func(l *Listener) string {
		var steps []string
		for line := range strings.Lines(string(l.Take())) {
			if _, lost, is := strings.Cut(line, `"lost":`); is {
				line = "lost " + strings.TrimRight(lost, "}\n")
			} else if len(line) > 100 {
				line = fmt.Sprintf("%d bytes", len(line))
			}
			steps = append(steps, strings.TrimSpace(line))
		}
		return strings.Join(steps, ", ")
	}
	hear := func(t *testing.T, l *Listener, steps ...string) {
		t.Helper()
		done := false
		go func() {
			for _, step := range steps {
				l.hear([]byte(step))
			}
			done = true
		}()
		synctest.Wait()
		if !done {
			for ; !done; synctest.Wait() {
				<-l.news
			}
			t.Fatal("hear waits until somebody looks for news, and so a loop stands still")
		}
	}
	full := strings.Repeat("x", backlog-1) + "\n"
	check("steps are kept in order", func(t *testing.T, l *Listener) {
		hear(t, l, "one\n", "two\n")
		assert.Equal(t, "one, two", kept(l))
	})
	check("who waits is woken", func(t *testing.T, l *Listener) {
		hear(t, l, "one\n")
		assert.Len(t, l.news, 1, "the channel that the handler waits for, after a step")
	})
	check("it waits for nobody to be woken", func(t *testing.T, l *Listener) {
		hear(t, l, "one\n", "two\n", "three\n")
		assert.Equal(t, "one, two, three", kept(l))
	})
	check("what a step was written in is used for the next", func(t *testing.T, l *Listener) {
		step := []byte("one\n")
		l.hear(step)
		copy(step, "two\n")
		assert.Equal(t, "one", kept(l))
	})
	check("there is room for as many bytes as backlog says", func(t *testing.T, l *Listener) {
		hear(t, l, full[len("one\n"):], "one\n")
		assert.Equal(t, fmt.Sprintf("%d bytes, one", backlog-len("one\n")), kept(l))
	})
	check("what has no room is counted", func(t *testing.T, l *Listener) {
		hear(t, l, full, "one\n", "two\n", "three\n")
		assert.Equal(t, fmt.Sprintf("%d bytes, lost 3", backlog), kept(l))
	})
	check("nothing is kept that comes after what is lost", func(t *testing.T, l *Listener) {
		hear(t, l, "one\n", full, "two\n")
		assert.Equal(t, "one, lost 2", kept(l), "after a step that has no room, and one that has")
	})
	check("once all is taken there is room again", func(t *testing.T, l *Listener) {
		hear(t, l, full, "one\n")
		l.Take()
		hear(t, l, "two\n")
		assert.Equal(t, "two", kept(l))
	})
}

//exercise:race
func TestWritesAreTold(t *testing.T) {
	t.Parallel()
	// told is what is told of a request that takes two seconds.
	told := func(t *testing.T, method string, answer http.RoundTripper, bySync bool) (steps []Step, response *http.Response, err error) {
		synctest.Test(t, func(t *testing.T) {
			l := Listen(strings.ToLower(t.Name()))
			defer l.Stop()
			ctx := t.Context()
			if bySync {
				ctx, _ = Begin(ctx, "loop", cache.NewObjectName(strings.ToLower(t.Name()), "web"))
			}
			response, err = Writes(takesTwoSeconds{answer}).RoundTrip(httptest.NewRequestWithContext(ctx, method, "/api/v1/pods/a?dryRun=All", nil))
			for _, step := range heard(t, l) {
				if step.What != Begun {
					steps = append(steps, step)
				}
			}
		})
		return steps, response, err
	}
	text := func(steps []Step) string {
		var all []string
		for _, s := range steps {
			all = append(all, fmt.Sprintf("%s %s: %d %s after %v s", s.What, s.Request, s.Code, s.Error, s.Seconds))
		}
		return strings.Join(all, "; ")
	}
	t.Run("a write is told with the code of its answer", func(t *testing.T) {
		t.Parallel()
		steps, _, _ := told(t, http.MethodDelete, answers(http.StatusConflict), true)
		assert.Equal(t, "done DELETE /api/v1/pods/a: 409  after 2 s", text(steps))
	})
	t.Run("a write is told of the sync that it belongs to", func(t *testing.T) {
		t.Parallel()
		steps, _, _ := told(t, http.MethodPatch, answers(http.StatusOK), true)
		require.Len(t, steps, 1, "steps")
		assert.Equal(t, "web of loop, in a sync: true", fmt.Sprintf("%s of %s, in a sync: %t", steps[0].Name, steps[0].Loop, steps[0].Sync > 0))
	})
	t.Run("a write without an answer is told with the error", func(t *testing.T) {
		t.Parallel()
		steps, _, _ := told(t, http.MethodPost, answers(0), true)
		assert.Equal(t, "done POST /api/v1/pods/a: 0 the connection is broken off after 2 s", text(steps))
	})
	t.Run("what is read is not told", func(t *testing.T) {
		t.Parallel()
		steps, _, _ := told(t, http.MethodGet, answers(http.StatusOK), true)
		assert.Empty(t, text(steps))
	})
	t.Run("what no sync has written is not told", func(t *testing.T) {
		t.Parallel()
		steps, _, _ := told(t, http.MethodPost, answers(http.StatusCreated), false)
		assert.Empty(t, text(steps))
	})
	for situation, test := range map[string]struct {
		method string
		bySync bool
	}{
		"of a write":                  {http.MethodPost, true},
		"of a read":                   {http.MethodGet, true},
		"of a write outside any sync": {http.MethodPost, false},
	} {
		t.Run("the answer "+situation+" is handed on", func(t *testing.T) {
			t.Parallel()
			_, response, err := told(t, test.method, answers(http.StatusForbidden), test.bySync)
			require.NoError(t, err)
			require.NotNil(t, response, "the answer")
			assert.Equal(t, http.StatusForbidden, response.StatusCode)
		})
		t.Run("the error "+situation+" is handed on", func(t *testing.T) {
			t.Parallel()
			_, _, err := told(t, test.method, answers(0), test.bySync)
			assert.EqualError(t, err, "the connection is broken off")
		})
	}
}

func TestWhoListensToANamespaceHearsOfNoOther(t *testing.T) {
	t.Parallel()
	l := Listen("mine")
	defer l.Stop()
	Enqueue("loop", "mine/web", 0)
	Enqueue("loop", "theirs/web", 0)
	Enqueue("loop", "a-node", 0)
	all := heard(t, l)
	require.Len(t, all, 1)
	assert.Equal(t, "web", all[0].Name)
}

func TestNobodyWhoHasStoppedListeningHearsAnything(t *testing.T) {
	t.Parallel()
	l := Listen("stopped")
	l.Stop()
	l.Stop() // once more does no harm
	Enqueue("loop", "stopped/web", 0)
	assert.Empty(t, heard(t, l))
}

func TestWhoDoesNotKeepUpIsToldHowManyStepsAreLost(t *testing.T) {
	t.Parallel()
	l := Listen("slow")
	defer l.Stop()
	Enqueue("loop", "slow/web", 0)
	length := len(l.Take())
	long := strings.Repeat("x", backlog/10)
	told := 0
	for ; told*length < backlog; told++ {
		Enqueue("loop", "slow/web", 0)
	}
	for range 5 {
		Enqueue(long, "slow/web", 0) // has no room
		Enqueue("loop", "slow/web", 0)
		told += 2
	}
	all := heard(t, l)
	last := all[len(all)-1]
	assert.Equal(t, Lost, last.What, "what is told after what there was room for")
	assert.GreaterOrEqual(t, last.Lost, 10)
	assert.Equal(t, told, len(all)-1+last.Lost, "steps that were told, or lost and counted")
	Enqueue("loop", "slow/web", 0)
	assert.Equal(t, "queued", kinds(heard(t, l)), "what is told once there is room again")
}

func TestWhatWasTakenStaysAsItIsUntilMoreIsTaken(t *testing.T) {
	t.Parallel()
	l := Listen("taken")
	defer l.Stop()
	Enqueue("loop", "taken/one", 0)
	taken := l.Take()
	before := string(taken)
	Enqueue("loop", "taken/two", 0)
	assert.Equal(t, before, string(taken))
	assert.Equal(t, "two", heard(t, l)[0].Name)
	assert.Empty(t, l.Take())
}

func TestAStepCanSayAnything(t *testing.T) {
	t.Parallel()
	l := Listen("any")
	defer l.Stop()
	_, sync := Begin(t.Context(), "loop", "any/web")
	trouble := "\"quoted\"\nand <more> \u2028 of it\\"
	sync.End(errors.New(trouble))
	assert.Equal(t, trouble, heard(t, l)[1].Error)
}

func TestWithoutASyncInTheContextNothingIsPutTogether(t *testing.T) {
	t.Parallel()
	l := Listen("idle")
	defer l.Stop()
	Sees(t.Context(), func() []slog.Attr {
		t.Error("the facts were put together for nobody")
		return nil
	})
}

func TestTheHandlerSendsEachStepAtOnceAndEndsWithWhoAsks(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Handler())
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+Path+"?namespace=served", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request) // the answer begins when somebody listens
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for _, name := range []string{"one", "two"} {
		Enqueue("loop", cache.NewObjectName("served", name), 0)
		line, err := lines.ReadBytes('\n')
		require.NoError(t, err)
		var step Step
		require.NoError(t, json.Unmarshal(line, &step))
		assert.Equal(t, name, step.Name)
	}
	cancel()
	_, err = io.ReadAll(lines)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNothingIsWrittenToTheHandler(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// traced is a sync that creates a pod, and whose key was queued: six steps.
func traced(ctx context.Context) {
	Enqueue("replicaset-controller", web, 0)
	ctx, sync := Begin(ctx, "replicaset-controller", web)
	Sees(ctx, func() []slog.Attr {
		return []slog.Attr{
			slog.Int("want", 3), slog.Int("active", 2), slog.Int("terminating", 0), slog.Int("failed", 0),
			slog.Bool("mayAct", true), slog.String("version", "123456"),
		}
	})
	Decides(ctx, func() []slog.Attr { return []slog.Attr{slog.Int("create", 1)} })
	Writes(answers(http.StatusCreated)).RoundTrip(post.WithContext(ctx))
	sync.End(nil)
}

var post = httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/heard/pods", nil)

var web = cache.NewObjectName("heard", "web-5f7bb5bc88")

// What a step costs while somebody listens.
func BenchmarkAStepThatIsHeard(b *testing.B) {
	l := Listen("heard")
	defer l.Stop()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		Enqueue("replicaset-controller", web, 0)
		if n%100 == 0 {
			l.Take()
		}
	}
}

// What a sync pays that tells five steps, with its request.
func BenchmarkASyncThatIsHeard(b *testing.B) {
	l := Listen("heard")
	defer l.Stop()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		traced(b.Context())
		if n%20 == 0 {
			l.Take()
		}
	}
}

// What a sync pays while nobody listens: a few nanoseconds a step.
func BenchmarkASyncThatNobodyHears(b *testing.B) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		Sees(ctx, func() []slog.Attr { return []slog.Attr{slog.Int("want", 3)} })
		Decides(ctx, func() []slog.Attr { return []slog.Attr{slog.Int("create", 3)} })
	}
}
