package play

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

func (p *Play) get(c *call) error {
	m, err := p.manager(c.args[0])
	if err != nil {
		return err
	}
	wanted, content := http.StatusOK, regexp.MustCompile("(?m)"+argument[string](c, "REGEXP"))
	if c.has("CODE") {
		wanted = argument[int](c, "CODE")
	}
	client, err := p.clientOf(c.args[1])
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	var body []byte
	what := fmt.Sprintf("%s answers %s to %s with %d", c.args[0], c.args[2], c.args[1], wanted)
	err = p.waitFor(m, what, func() (bool, error) {
		request, err := http.NewRequestWithContext(p.ctx, http.MethodGet, "https://127.0.0.1:"+m.port+c.args[2], nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if wanted == 0 && errors.Is(err, syscall.ECONNREFUSED) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		defer response.Body.Close()
		if body, err = io.ReadAll(response.Body); err != nil {
			return false, err
		}
		return response.StatusCode == wanted && content.Match(body), fmt.Errorf("%s: %s", response.Status, body)
	})
	if !c.meanwhile {
		c.Stdout().Write(body)
	}
	return err
}

// clientOf returns a client with the credentials of a user: admin, account (the default ServiceAccount), account/NAME,
// forger (who has made up a token; each forger/NAME another one) or anonymous.
func (p *Play) clientOf(user string) (*http.Client, error) {
	config := &rest.Config{}
	kind, name, _ := strings.Cut(user, "/")
	switch kind {
	case "admin":
		config = p.Cluster.RESTConfig(cluster.Admin)
	case "account":
		token, err := p.token(name)
		if err != nil {
			return nil, err
		}
		config.BearerToken = token
	case "forger":
		config.BearerToken = "made-up" + name
	case "anonymous":
	default:
		return nil, fmt.Errorf("unknown user %s: use admin, account, account/NAME, forger, forger/NAME or anonymous", user)
	}
	// The manager has made its certificate itself.
	config.TLSClientConfig.Insecure = true
	config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = nil, ""
	config.Timeout = p.Patience
	return rest.HTTPClientFor(config)
}

// token returns the token of a ServiceAccount, each time the same.
func (p *Play) token(account string) (string, error) {
	account = cmp.Or(account, "default")
	if token := p.tokens[account]; token != "" {
		return token, nil
	}
	namespace := cmp.Or(p.namespace, metav1.NamespaceDefault)
	accounts := kubernetes.NewForConfigOrDie(p.config).CoreV1().ServiceAccounts(namespace)
	token, err := accounts.CreateToken(p.ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of ServiceAccount %s: %w", account, err)
	}
	p.tokens[account] = token.Status.Token
	return token.Status.Token, nil
}

// bearer asks the API server who has a token, until it says so: it remembers for ten seconds what it has found out.
func (p *Play) bearer(c *call) error {
	token, err := p.valueOf(asked(c))
	if err != nil {
		return err
	}
	client := kubernetes.NewForConfigOrDie(p.config).AuthenticationV1().TokenReviews()
	wanted, name := c.args[1], ""
	err = p.wait(fmt.Sprintf("the bearer of %s is %q", c.args[0], wanted), func() (bool, error) {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: fmt.Sprint(token.Value())}}
		review, err := client.Create(p.ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("review a token: %w", err)
		}
		name = review.Status.User.Username
		return name == wanted, fmt.Errorf("it is %q", name)
	})
	if err != nil {
		return err
	}
	p.Narrator.Say(fmt.Sprintf("the API server takes the bearer of %s for %q", c.args[0], name))
	return nil
}
