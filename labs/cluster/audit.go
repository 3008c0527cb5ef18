package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
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
	// Forbidden says that the user had no right to ask. A request with Code 403 may have been refused by admission as well.
	Forbidden bool
}

// auditLine is the part of audit.k8s.io/v1 Event that AuditEvent shows.
type auditLine struct {
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	Verb                     string    `json:"verb"`
	UserAgent                string    `json:"userAgent"`
	User                     struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations struct {
		Decision string `json:"authorization.k8s.io/decision"`
	} `json:"annotations"`
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
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		event, err := parseAuditLine(line)
		if err != nil {
			return nil, fmt.Errorf("read audit log %s, line %d: %w", path, number, err)
		}
		if keep == nil || keep(event) {
			events = append(events, event)
		}
	}
}

func parseAuditLine(line []byte) (AuditEvent, error) {
	var l auditLine
	if err := json.Unmarshal(bytes.TrimSpace(line), &l); err != nil {
		return AuditEvent{}, err
	}
	return AuditEvent{
		Time:        l.RequestReceivedTimestamp,
		User:        l.User.Username,
		Groups:      l.User.Groups,
		UserAgent:   l.UserAgent,
		Verb:        l.Verb,
		APIGroup:    l.ObjectRef.APIGroup,
		Resource:    l.ObjectRef.Resource,
		Subresource: l.ObjectRef.Subresource,
		Namespace:   l.ObjectRef.Namespace,
		Name:        l.ObjectRef.Name,
		Code:        l.ResponseStatus.Code,
		Forbidden:   l.Annotations.Decision == "forbid",
	}, nil
}
