package main

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/component-base/version"
)

//go:embed kwok
var kwokFiles embed.FS

// kwokOptions are kwok's settings for clusters with a thousand pods.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  nodeLeaseDurationSeconds: 40
  nodeLeaseParallelism: 16
  podPlayStageParallelism: 32
  nodePlayStageParallelism: 16
`

// includeLab is what an expression begins with that uses the definitions of lab.jq. kwok cannot load jq modules.
const includeLab = `include "lab";`

// kwokConfiguration returns kwok's configuration: its options, and what nodes and pods do when.
func kwokConfiguration() (string, error) {
	definitions, err := kwokFiles.ReadFile("kwok/lab.jq")
	if err != nil {
		return "", err
	}
	include := strings.NewReplacer(
		includeLab, quotedInYAML(oneLine(string(definitions))),
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

// oneLine takes comments and line breaks out of jq definitions.
func oneLine(definitions string) string {
	var kept []string
	for line := range strings.Lines(definitions) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " ")
}

// quotedInYAML makes text fit between the single quotes in which all expressions stand.
func quotedInYAML(text string) string {
	return strings.ReplaceAll(text, "'", "''")
}
