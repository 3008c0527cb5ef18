package view

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kcm-book/kcm-book/kcm/trace"
	"github.com/kcm-book/kcm-book/labs/history"
)

// open shows a view in a Chromium without a window. What goes wrong in the page
// fails the test.
func open(t *testing.T, v *View) context.Context {
	t.Helper()
	if os.Getenv("BROWSER") == "" {
		t.Skip("make prove-site runs this")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("needs Chromium (on Debian: apt-get install chromium)")
	}
	address, stop, err := v.Serve("0")
	require.NoError(t, err)
	allocator, end := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...)
	var mu sync.Mutex
	var thrown []any
	ctx, _ := chromedp.NewContext(allocator, chromedp.WithListener(func(event any) {
		if exception, is := event.(*runtime.EventExceptionThrown); is {
			mu.Lock()
			defer mu.Unlock()
			thrown = append(thrown, exception.ExceptionDetails.Text, exception.ExceptionDetails.Exception)
		}
	}))
	t.Cleanup(func() {
		end()
		stop()
		mu.Lock()
		defer mu.Unlock()
		assert.Empty(t, thrown, "what went wrong in the page")
	})
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)))
	// A tab that has no focus is not drawn, and hears no key.
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(address)))
	return ctx
}

// ask evaluates an expression in the page.
func ask[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return value
}

// until waits until an expression is true in the page.
func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(time.Minute)))
	require.NoError(t, err, expression)
}

// rollOut tells a view of pods that come and become ready, as fast as a loop makes
// them, and of a sync for each.
func rollOut(v *View, pods int) {
	set := object("web-1", "", map[string]any{"spec": map[string]any{"replicas": int64(pods)}})
	v.change(history.Change{Type: watch.Added, Resource: "replicasets", Object: set, Seen: time.Now()})
	for i := range 2 * pods {
		pod := podThat(map[bool]string{true: "True", false: "False"}[i >= pods], nil)
		pod.SetName(fmt.Sprintf("web-1-%04d", i%pods))
		pod.SetUID(types.UID(pod.GetName()))
		kind := map[bool]watch.EventType{true: watch.Modified, false: watch.Added}[i >= pods]
		v.change(history.Change{Type: kind, Resource: "pods", Object: pod, Seen: time.Now()})
		v.Step("kcm-1", step(trace.Done, func(s *trace.Step) {
			s.At, s.Request, s.Code = time.Now(), "POST /api/v1/namespaces/shop/pods", 201
		}))
		time.Sleep(time.Millisecond) // is the pace
	}
}

func TestAThousandPodsAreOnTheScreenInTime(t *testing.T) {
	v := New("a thousand pods")
	ctx := open(t, v)
	v.Did("begin")
	until(t, ctx, "view.player.last >= 0")
	const pods = 1000
	rollOut(v, pods)
	shown := "document.getElementById('scene').textContent.includes('%d ready') && view.delays.length > %d"
	until(t, ctx, fmt.Sprintf(shown, pods, 3*pods))
	delays := ask[[]float64](t, ctx, "view.delays")
	slices.Sort(delays)
	p95 := delays[len(delays)*95/100]
	t.Logf("from a change to the screen: %.0f ms in the middle, %.0f ms at the 95th percentile, %.0f ms at most",
		delays[len(delays)/2], p95, delays[len(delays)-1])
	assert.LessOrEqual(t, p95, 100.0, "milliseconds at the 95th percentile")
	assert.Less(t, ask[int](t, ctx, "document.querySelectorAll('#scene *').length"), 100, "shapes for pods that are alike")
}

func TestThePageStepsBackAndForthWithKeysAndByItsAddress(t *testing.T) {
	v := New("steps")
	ctx := open(t, v)
	for i := range 10 {
		v.Did(fmt.Sprintf("deed %d", i))
	}
	until(t, ctx, "view.player.at === 9")
	now := "document.getElementById('now').textContent"
	press := func(key string) { require.NoError(t, chromedp.Do(ctx, chromedp.KeyEvent(key))) }
	press(kb.ArrowLeft)
	until(t, ctx, now+" === 'deed 8'")
	assert.Equal(t, "paused", ask[string](t, ctx, "view.mode()"))
	v.Did("deed 10")
	until(t, ctx, "view.player.last === 10")
	assert.Equal(t, "deed 8", ask[string](t, ctx, now), "who looks back is not interrupted")
	press(kb.Home)
	until(t, ctx, now+" === 'deed 0'")
	press(kb.ArrowRight)
	until(t, ctx, now+" === 'deed 1'")
	ask[string](t, ctx, "location.hash = '#moment=5'")
	until(t, ctx, now+" === 'deed 5'")
	ask[any](t, ctx, "document.getElementById('live').click()")
	until(t, ctx, now+" === 'deed 10' && view.mode() === 'live'")
}

func TestAButtonIsPressedAndNothingIsWiderThanANarrowScreen(t *testing.T) {
	v := New("buttons")
	pressed := make(chan bool, 1)
	v.Deeds = []Deed{{"Leader killed", "the leader is gone", func(context.Context) error { pressed <- true; return nil }}}
	ctx := open(t, v)
	rollOut(v, 20)
	until(t, ctx, "view.player.at >= 80")
	ask[any](t, ctx, "[...document.querySelectorAll('#deeds button')].at(-1).click()")
	select {
	case <-pressed:
	case <-time.After(time.Minute):
		t.Fatal("the button did nothing")
	}
	until(t, ctx, "document.getElementById('log').textContent.includes('Leader killed: the leader is gone')")
	for _, width := range []int64{320, 700, 1600} {
		require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 800)))
		assert.LessOrEqual(t, ask[int64](t, ctx, "document.documentElement.scrollWidth"), width,
			"the page on a screen of %d pixels", width)
	}
}
