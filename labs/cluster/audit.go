package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// AuditEvent is one completed request, as the API server's audit log tells it.
type AuditEvent struct {
	// Time is when the request arrived.
	Time time.Time
	// User is the user name, such as system:serviceaccount:kube-system:deployment-controller.
	User   string
	Groups []string
	// UserAgent is what the client called itself.
	UserAgent string
	// Verb is the API's verb: get, list, watch, create, update, patch, delete, deletecollection.
	Verb string
	// APIGroup, Resource, Subresource, Namespace and Name say which object; empty where they do not apply.
	APIGroup, Resource, Subresource, Namespace, Name string
	// Code is the HTTP status code of the response.
	Code int
}

// readAuditLog reads the audit log at path. A last line that is still being written is left out.
func readAuditLog(path string, keep func(AuditEvent) bool) ([]AuditEvent, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // nothing was asked of the server yet
	}
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	var events []AuditEvent
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		line := auditv1.Event{ObjectRef: &auditv1.ObjectReference{}, ResponseStatus: &metav1.Status{}}
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log %s after %d bytes: %w", path, lines.InputOffset(), err)
		}
		event := AuditEvent{
			Time:        line.RequestReceivedTimestamp.Time,
			User:        line.User.Username,
			Groups:      line.User.Groups,
			UserAgent:   line.UserAgent,
			Verb:        line.Verb,
			APIGroup:    line.ObjectRef.APIGroup,
			Resource:    line.ObjectRef.Resource,
			Subresource: line.ObjectRef.Subresource,
			Namespace:   line.ObjectRef.Namespace,
			Name:        line.ObjectRef.Name,
			Code:        int(line.ResponseStatus.Code),
		}
		if keep == nil || keep(event) {
			events = append(events, event)
		}
	}
}
