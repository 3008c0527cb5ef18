//go:build upstream

// This file keeps in go.mod what upstream's suites are built from: these import packages of every module that is
// needed besides what the commands here need.
package main

import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
)
