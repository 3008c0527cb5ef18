package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatCannotBeMeasuredIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	for only, says := range map[string]string{
		"namespaces": "-only=namespaces matches none of limit, cold, create, update, zero, many, clean, killed, namespace, gc",
		"(":          "-only: error parsing regexp",
	} {
		require.ErrorContains(t, run(t.Context(), &bench{rounds: 1}, only), says)
	}
}
