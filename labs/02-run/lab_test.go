// Package run_test is the lab of chapter 02: what a manager tells about itself,
// to whom, and how it ends.
package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

const (
	// manager is who asks, in a group that tells it from the one with which a kind cluster was made.
	manager = "system:kube-controller-manager"
	// kept is how long the answers of the API server are kept, yes and no alike.
	kept = 10 * time.Second
)

// patientLease keeps the original, which leads at once, from giving up while
// the API server is away. For this chapter's kcm it is something that /configz shows.
var patientLease = []string{"--leader-elect-lease-duration=61s", "--leader-elect-renew-deadline=59s"}

func TestRun(t *testing.T) {
	l := lab.New(t, 2)
	var kcm *lab.Process
	var scraper, visitor string // tokens

	// get returns the status code and, of a refusal, the message.
	get := func(s *lab.Step, path, token string) (int, string) {
		s.Helper()
		code, body, err := s.Get(kcm, path, token)
		require.NoError(s, err, "get %s", path)
		var status metav1.Status
		if json.Unmarshal([]byte(body), &status) == nil && status.Kind == "Status" {
			body = status.Message
		}
		return code, body
	}
	// show gets paths with a token, and says and checks which codes come.
	show := func(s *lab.Step, token string, expected []answer) {
		s.Helper()
		for _, e := range expected {
			code, _ := get(s, e.path, token)
			s.Say("%d %s", code, e.path)
			assert.Equal(s, e.code, code, e.path)
		}
	}
	group := "kcm-book:kcm"
	if lab.Reference() {
		group = "kcm-book:reference"
	}
	// asked returns how often the manager has asked the API server of a kind of question.
	asked := func(s *lab.Step, resource string) int {
		s.Helper()
		events, err := l.Cluster.AuditEvents(func(e cluster.AuditEvent) bool {
			return e.User == manager && slices.Contains(e.Groups, group) && e.Resource == resource && e.Verb == "create"
		})
		require.NoError(s, err)
		for _, e := range events {
			assert.Equal(s, http.StatusCreated, e.Code, "the answer to one of its %s", resource)
		}
		return len(events)
	}
	// token returns a token of a ServiceAccount.
	token := func(s *lab.Step, name string) string {
		s.Helper()
		s.Say("$ TOKEN=$(kubectl create token %s)", name)
		request, err := l.Client.CoreV1().ServiceAccounts("default").CreateToken(s.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		require.NoError(s, err)
		return request.Status.Token
	}

	l.Step("Health is for everyone, and everything else is not", func(s *lab.Step) {
		kcm = s.Start("kcm", patientLease...)
		s.Say("%s", s.AwaitAnswer(kcm, "/healthz?verbose", "", http.StatusOK))
		livez := http.StatusOK
		if lab.Reference() {
			livez = http.StatusNotFound // for everyone
		}
		show(s, "", []answer{
			{http.StatusOK, "/healthz"}, {livez, "/livez"},
			{http.StatusForbidden, "/healthz/ping"}, {http.StatusForbidden, "/metrics"}, {http.StatusForbidden, "/configz"},
			{http.StatusForbidden, "/flagz"}, {http.StatusForbidden, "/debug/pprof/"}, {http.StatusForbidden, "/no/such/page"},
		})
		_, message := get(s, "/metrics", "")
		s.Say("%s", message)
		assert.Equal(s, `forbidden: User "system:anonymous" cannot get path "/metrics"`, message)
		s.Say("The last page does not exist. Who may not look does not learn that.")
	})

	l.Step("Health asks nobody; for who shows no token it asks once what they may, and not who they are", func(s *lab.Step) {
		assert.Zero(s, asked(s, "tokenreviews"), "nobody has shown a token yet")
		before := asked(s, "subjectaccessreviews")
		assert.Equal(s, 6, before, "a question for each path that is not for everyone")
		for range 50 {
			code, _ := get(s, "/healthz", "")
			require.Equal(s, http.StatusOK, code)
		}
		assert.Equal(s, before, asked(s, "subjectaccessreviews"))
		begin := time.Now()
		for range 50 {
			code, _ := get(s, "/debug/pprof/heap", "")
			require.Equal(s, http.StatusForbidden, code)
		}
		questions := asked(s, "subjectaccessreviews") - before
		s.Say("for 50 requests to /healthz it has asked 0 times, for 50 to /debug/pprof/heap %d", questions)
		assert.Positive(s, questions)
		assert.LessOrEqual(s, questions, atMost(time.Since(begin)))
		assert.Zero(s, asked(s, "tokenreviews"))
	})

	l.Step("A wrong token is an error, where none is not", func(s *lab.Step) {
		show(s, "nonsense", []answer{{http.StatusUnauthorized, "/metrics"}, {http.StatusUnauthorized, "/healthz"}})
		assert.Positive(s, asked(s, "tokenreviews"), "it cannot know by itself")
	})

	l.Step("A ServiceAccount with a token is somebody, and that is all it is", func(s *lab.Step) {
		s.Kubectl("create serviceaccount scraper")
		scraper = token(s, "scraper")
		reviews, questions := asked(s, "tokenreviews"), asked(s, "subjectaccessreviews")
		begin := time.Now()
		code, message := get(s, "/metrics", scraper)
		s.Say("%d %s", code, message)
		assert.Equal(s, http.StatusForbidden, code)
		assert.Equal(s, `forbidden: User "system:serviceaccount:default:scraper" cannot get path "/metrics"`, message)
		for range 50 {
			get(s, "/metrics", scraper)
		}
		reviews, questions = asked(s, "tokenreviews")-reviews, asked(s, "subjectaccessreviews")-questions
		s.Say("for 51 requests %s has sent %d TokenReview and %d SubjectAccessReview", manager, reviews, questions)
		for what, count := range map[string]int{"TokenReviews": reviews, "SubjectAccessReviews": questions} {
			assert.Positive(s, count, what)
			assert.LessOrEqual(s, count, atMost(time.Since(begin)), what)
		}
	})

	l.Step("A role gives it the right to read metrics, as soon as the manager asks again", func(s *lab.Step) {
		s.Kubectl("create clusterrole read-metrics --verb=get --non-resource-url=/metrics")
		s.Kubectl("create clusterrolebinding scraper-reads-metrics --clusterrole=read-metrics --serviceaccount=default:scraper")
		questions, requests, begin := asked(s, "subjectaccessreviews"), 0, time.Now()
		var metrics string
		s.Await("the scraper gets metrics", func(context.Context) (bool, string, error) {
			requests++
			code, body, err := s.Get(kcm, "/metrics", scraper)
			metrics = body
			return code == http.StatusOK, fmt.Sprint(code), err
		})
		questions = asked(s, "subjectaccessreviews") - questions
		s.Say("it has tried %d times, and the manager has asked %d times", requests, questions)
		assert.Positive(s, questions, "the no was forgotten, and a yes was asked for")
		assert.LessOrEqual(s, questions, atMost(time.Since(begin)))
		for line := range strings.Lines(metrics) {
			if strings.HasPrefix(line, "kubernetes_feature_enabled") && strings.Contains(line, `"ComponentFlagz"`) {
				s.Say("%s", line)
			}
		}
		assert.Contains(s, metrics, `kubernetes_feature_enabled{name="ComponentFlagz",stage="BETA"} 1`)
		s.Say("The right is for one path:")
		show(s, scraper, []answer{{http.StatusOK, "/metrics"}, {http.StatusForbidden, "/configz"}})
	})

	l.Step("Who may see everything sees the configuration that it runs with, and which pages there are not", func(s *lab.Step) {
		s.Kubectl("create serviceaccount visitor")
		s.Kubectl("create clusterrole see-manager --verb=get --non-resource-url=*")
		s.Kubectl("create clusterrolebinding visitor-sees-manager --clusterrole=see-manager --serviceaccount=default:visitor")
		visitor = token(s, "visitor")
		var configz map[string]struct {
			Generic struct {
				LeaderElection struct{ LeaseDuration, RenewDeadline, RetryPeriod string }
			}
		}
		require.NoError(s, json.Unmarshal([]byte(s.AwaitAnswer(kcm, "/configz", visitor, http.StatusOK)), &configz))
		election := configz["kubecontrollermanager.config.k8s.io"].Generic.LeaderElection
		s.Say("LeaderElection: %+v", election)
		assert.Equal(s, "1m1s", election.LeaseDuration, "said on the command line")
		assert.Equal(s, "2s", election.RetryPeriod, "the default")
		_, flagz := get(s, "/flagz", visitor)
		assert.Regexp(s, `leader-elect-lease-duration\W+1m1s`, flagz) // what is between them is random, so that nobody parses it
		show(s, visitor, []answer{
			{http.StatusOK, "/flagz"}, {http.StatusOK, "/statusz"}, {http.StatusOK, "/metrics/slis"}, {http.StatusOK, "/debug/pprof/"},
			{http.StatusNotFound, "/no/such/page"},
		})
	})

	l.Step("What it has to say about itself is an event, in the namespace default", func(s *lab.Step) {
		s.OnlyKCM("the original records no event when it starts, only when it leads")
		s.Await("the event is there", func(ctx context.Context) (bool, string, error) {
			events, err := l.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=Started,source=kube-controller-manager"})
			if err != nil {
				return false, "", err
			}
			return len(events.Items) > 0, fmt.Sprintf("%d events", len(events.Items)), nil
		})
		out := s.Kubectl("get events -n default --no-headers --field-selector reason=Started,source=kube-controller-manager " +
			"-o custom-columns=TYPE:.type,REASON:.reason,KIND:.involvedObject.kind,ABOUT:.involvedObject.name,MESSAGE:.message")
		assert.Equal(s, []string{"Normal", "Started", "Namespace", "kube-system", "kcm", "is", "up"}, strings.Fields(out))
	})

	l.Step("While the API server is frozen it is healthy, and a port that is taken is found at once", func(s *lab.Step) {
		require.NoError(s, l.Cluster.Stop(s.Context(), cluster.APIServer))
		s.Say("the API server is frozen")
		show(s, "", []answer{{http.StatusOK, "/healthz"}})
		second := s.Start("second", "--secure-port="+kcm.Port)
		assert.Equal(s, 1, s.AwaitExit(second))
		if lab.Reference() {
			s.AwaitLog(second, "failed to create listener.*address already in use")
		} else {
			s.AwaitLog(second, "^kcm: --secure-port="+kcm.Port+", .*address already in use")
		}
		require.NoError(s, l.Cluster.Continue(s.Context(), cluster.APIServer))
	})

	l.Step("Started before the API server, it waits for that", func(s *lab.Step) {
		s.OnlyKCM("the original asks the API server for its clients' CA before it waits, fails, and relies on being started again")
		require.NoError(s, l.Cluster.Stop(s.Context(), cluster.APIServer))
		s.Say("the API server is frozen")
		late := s.Start("late")
		s.AwaitLog(late, `"Starting"`)
		assert.NotContains(s, late.Log(), "Serving securely")
		require.NoError(s, l.Cluster.Continue(s.Context(), cluster.APIServer))
		s.Say("the API server goes on")
		s.AwaitLog(late, "Serving securely")
		s.AwaitAnswer(late, "/livez", "", http.StatusOK)
		s.Signal(late, syscall.SIGTERM)
		assert.Equal(s, 0, s.AwaitExit(late))
	})

	l.Step("While the API server is dead nobody can be asked: that is neither a yes nor a no", func(s *lab.Step) {
		require.NoError(s, l.Cluster.Kill(s.Context(), cluster.APIServer))
		s.Say("the API server was killed")
		s.Say("%s", s.AwaitAnswer(kcm, "/healthz?verbose", "", http.StatusOK))
		s.Say("It is no less healthy: to start it again would mend nothing. A path that it has not asked about:")
		show(s, "", []answer{{http.StatusInternalServerError, "/never/asked"}})
		s.Say("And a token that it has not asked about, even where health is for everyone:")
		show(s, "unknown", []answer{{http.StatusUnauthorized, "/healthz"}})
		require.NoError(s, l.Cluster.Restart(s.Context(), cluster.APIServer))
		s.Say("the API server was started again")
		s.AwaitAnswer(kcm, "/never/asked", "", http.StatusForbidden)
	})

	l.Step("Told to stop, it finishes the answer that it is giving, and ends with 0", func(s *lab.Step) {
		s.OnlyKCM("the original does not handle SIGTERM, unless a feature gate is on")
		s.AwaitAnswer(kcm, "/metrics", visitor, http.StatusOK)
		const path = "/debug/pprof/profile?seconds=1"
		type result struct {
			code int
			body string
			err  error
		}
		profile := make(chan result, 1)
		go func() {
			code, body, err := s.Get(kcm, path, visitor)
			profile <- result{code, body, err}
		}()
		s.Await("a profile of one second is being taken", func(context.Context) (bool, string, error) {
			_, stacks, err := s.Get(kcm, "/debug/pprof/goroutine?debug=2", visitor)
			return strings.Contains(stacks, "net/http/pprof.Profile("), "not yet", err
		})
		s.Signal(kcm, syscall.SIGTERM)
		assert.Equal(s, 0, s.AwaitExit(kcm))
		got := <-profile // it has ended, so this has
		require.NoError(s, got.err)
		s.Say("%d GET %s: %d bytes", got.code, path, len(got.body))
		assert.Equal(s, http.StatusOK, got.code)
		assert.True(s, strings.HasPrefix(got.body, "\x1f\x8b"), "a profile is compressed with gzip")
		s.AwaitLog(kcm, `"Stopping"`)
		_, _, err := s.Get(kcm, "/healthz", "")
		require.ErrorIs(s, err, syscall.ECONNREFUSED)
		s.Say("%v", err)
	})
}

// answer is a status code that a path is to be answered with.
type answer struct {
	code int
	path string
}

// atMost is how often a question may be asked in a time, when its answer is kept.
func atMost(passed time.Duration) int { return 1 + int(passed/kept) }
