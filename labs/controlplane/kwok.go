package main

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"k8s.io/component-base/version"
)

//go:embed kwok
var kwokFiles embed.FS

// kwokOptions are kwok's settings for clusters with a thousand pods. A Lease is renewed when a quarter of its time is
// over, so that one of a node that is silent on purpose is soon known from one that the machine has kept waiting. Pods
// are looked at when their node is there, as they may have come first: by default kwok has no worker for that.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  nodeLeaseDurationSeconds: 16
  nodeLeaseParallelism: 16
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 16
  podsOnNodeSyncParallelism: 4
`

// includeLab is what an expression begins with that uses the definitions of lab.jq. kwok cannot load jq modules.
const includeLab = `include "lab";`

// jqComment is a line that would, in one line with all others, make the rest of them a comment too.
var jqComment = regexp.MustCompile(`(?m)^\s*#.*$`)

// kwokConfiguration returns kwok's configuration: its options, and what nodes and pods do when.
func kwokConfiguration() (string, error) {
	definitions, err := kwokFiles.ReadFile("kwok/lab.jq")
	if err != nil {
		return "", err
	}
	// An expression stands on one line, between single quotes.
	line := strings.Join(strings.Fields(jqComment.ReplaceAllString(string(definitions), "")), " ")
	include := strings.NewReplacer(
		includeLab, strings.ReplaceAll(line, "'", "''"),
		"KUBERNETES_VERSION", version.Get().GitVersion,
	)
	names, err := fs.Glob(kwokFiles, "kwok/*.yaml")
	if err != nil {
		return "", err
	}
	all := kwokOptions
	for _, name := range names {
		content, err := kwokFiles.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read stage: %w", err)
		}
		all += "---\n" + include.Replace(string(content))
	}
	return all, nil
}
