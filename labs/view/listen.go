package view

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

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
	config, err := rest.TLSConfigFor(who)
	if err != nil {
		return err
	}
	// The manager signs its certificate itself, and it is ours.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, Certificates: config.Certificates, GetClientCertificate: config.GetClientCertificate,
	}}}
	defer client.CloseIdleConnections()
	for {
		err := v.listenOnce(ctx, client, manager, "https://127.0.0.1:"+port+trace.Path)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNoTrace) {
			select {
			case <-time.After(again):
				continue
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
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
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("%s: %s", response.Status, text)
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
