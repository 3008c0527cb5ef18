package trace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

// heard returns the steps that wait for who listens.
func heard(steps <-chan Step) (all []Step) {
	for len(steps) > 0 {
		all = append(all, <-steps)
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

func TestTheStepsOfASyncHaveItsNumber(t *testing.T) {
	t.Parallel()
	steps, stop := Listen("shop")
	defer stop()
	ctx, sync := Begin(t.Context(), "replicaset-controller", cache.NewObjectName("shop", "web"))
	Sees(ctx, func() Facts { return Facts{"want": 3} })
	Decides(ctx, func() Facts { return Facts{"create": 3} })
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/shop/pods", nil)
	_, err := Writes(answers(http.StatusCreated)).RoundTrip(request)
	require.NoError(t, err)
	sync.End(errors.New("no more"))

	all := heard(steps)
	require.Equal(t, "begun observed decided done ended", kinds(all))
	for _, step := range all {
		assert.Equal(t, all[0].Sync, step.Sync, "the number of the sync at %q", step.What)
		assert.Equal(t, "shop/web of replicaset-controller", step.Namespace+"/"+step.Name+" of "+step.Loop)
	}
	assert.Equal(t, Facts{"want": 3}, all[1].Facts)
	assert.Equal(t, "POST /api/v1/namespaces/shop/pods", all[3].Request)
	assert.Equal(t, http.StatusCreated, all[3].Code)
	assert.Equal(t, "no more", all[4].Error)
}

func TestWhatIsReadIsNotToldAndALostAnswerIs(t *testing.T) {
	t.Parallel()
	steps, stop := Listen("lost")
	defer stop()
	ctx, _ := Begin(t.Context(), "loop", cache.NewObjectName("lost", "web"))
	read := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", nil)
	_, err := Writes(answers(http.StatusOK)).RoundTrip(read)
	require.NoError(t, err)
	_, err = Writes(answers(0)).RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodDelete, "/api/v1/pods/a", nil))
	require.Error(t, err)

	all := heard(steps)
	require.Equal(t, "begun done", kinds(all))
	assert.Equal(t, "DELETE /api/v1/pods/a: the connection is broken off", all[1].Request+": "+all[1].Error)
	assert.Zero(t, all[1].Code)
}

func TestWhoListensToANamespaceHearsOfNoOther(t *testing.T) {
	t.Parallel()
	steps, stop := Listen("mine")
	defer stop()
	Tell(About(Queued, "loop", "mine/web"))
	Tell(About(Queued, "loop", "theirs/web"))
	Tell(About(Queued, "loop", "a-node"))
	all := heard(steps)
	require.Len(t, all, 1)
	assert.Equal(t, "web", all[0].Name)
}

func TestNobodyWhoHasStoppedListeningHearsAnything(t *testing.T) {
	t.Parallel()
	steps, stop := Listen("stopped")
	stop()
	stop() // once more does no harm
	Tell(About(Queued, "loop", "stopped/web"))
	assert.Empty(t, heard(steps))
}

func TestWhoDoesNotKeepUpIsToldHowManyStepsAreLost(t *testing.T) {
	t.Parallel()
	steps, stop := Listen("slow")
	defer stop()
	for range backlog + 5 {
		Tell(About(Queued, "loop", "slow/web"))
	}
	require.Len(t, heard(steps), backlog)
	Tell(About(Queued, "loop", "slow/web"))
	all := heard(steps)
	require.Equal(t, "lost queued", kinds(all))
	assert.Equal(t, 5, all[0].Lost)
}

func TestWithoutASyncInTheContextNothingIsPutTogether(t *testing.T) {
	t.Parallel()
	_, stop := Listen("idle")
	defer stop()
	Sees(t.Context(), func() Facts {
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
		Tell(About(Queued, "loop", cache.NewObjectName("served", name)))
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

// What a step costs while somebody listens.
func BenchmarkAStepThatIsHeard(b *testing.B) {
	steps, stop := Listen("heard")
	defer stop()
	step := About(Done, "replicaset-controller", cache.NewObjectName("heard", "web-5f7bb5bc88"))
	step.Sync, step.Request, step.Code, step.Seconds = 12345, "POST /api/v1/namespaces/heard/pods", 201, 0.0123
	for b.Loop() {
		Tell(step)
		if len(steps) > 100 {
			if err := send(io.Discard, <-steps, steps); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// What a sync pays while nobody listens: a few nanoseconds.
func BenchmarkASyncThatNobodyHears(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		Sees(ctx, func() Facts { return Facts{"want": 3} })
		Decides(ctx, func() Facts { return Facts{"create": 3} })
	}
}
