package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// AuditEvent is one completed request, as the API server's audit log tells it. ObjectRef and ResponseStatus are never
// nil: what a request is not about is empty.
type AuditEvent = auditv1.Event

// AuditEvents reads the audit log as far as it is written, and returns the events that are to be kept, oldest first.
func (c *Cluster) AuditEvents(keep func(*AuditEvent) bool) ([]AuditEvent, error) {
	file, err := os.Open(c.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	var events []AuditEvent
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		event := AuditEvent{ObjectRef: &auditv1.ObjectReference{}, ResponseStatus: &metav1.Status{}}
		err := lines.Decode(&event)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log %s after %d bytes: %w", c.AuditLog, lines.InputOffset(), err)
		}
		if keep(&event) {
			events = append(events, event)
		}
	}
}
