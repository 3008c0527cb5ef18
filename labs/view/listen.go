package view

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/kcm-book/kcm-book/kcm/trace"
)

// ErrNoTrace says that a manager tells nothing of its inside.
var ErrNoTrace = errors.New("it tells nothing of its inside")

// again is after how long a manager is asked again that does not answer yet.
const again = 50 * time.Millisecond

// Listen tells of the steps of a manager that serves on a port of this machine, until
// ctx ends or the manager has. Who is the configuration says may read them.
// A manager that has no such steps is ErrNoTrace.
func (v *View) Listen(ctx context.Context, manager, port string, who *rest.Config) error {
	config := rest.CopyConfig(who)
	// The manager signs its certificate itself, and it is ours.
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	err = wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) {
		err := v.listenOnce(ctx, client, manager, "https://127.0.0.1:"+port+trace.Path)
		if errors.Is(err, ErrNoTrace) {
			return false, err
		}
		return false, nil
	})
	if errors.Is(err, ErrNoTrace) {
		return err
	}
	return nil
}

// listenOnce tells of the steps that come with one answer.
func (v *View) listenOnce(ctx context.Context, client *http.Client, manager, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return ErrNoTrace
	default:
		return errors.New(response.Status)
	}
	lines := json.NewDecoder(response.Body)
	for {
		var step trace.Step
		if err := lines.Decode(&step); err != nil {
			return err
		}
		v.Step(manager, step)
	}
}
