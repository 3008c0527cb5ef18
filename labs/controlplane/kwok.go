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
	all := ""
	for _, name := range names {
		content, err := kwokFiles.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("read stage: %w", err)
		}
		all += "---\n" + include.Replace(string(content))
	}
	return all, nil
}
