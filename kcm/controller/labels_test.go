package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWith(t *testing.T) {
	t.Parallel()
	t.Run("an object without labels gets its first", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, map[string]string{"app": "web"}, With(nil, "app", "web"))
	})
	t.Run("what was given stays as it is", func(t *testing.T) {
		t.Parallel()
		given := map[string]string{"app": "web", "version": "1"}
		assert.Equal(t, map[string]string{"app": "web", "version": "2"}, With(given, "version", "2"))
		assert.Equal(t, map[string]string{"app": "web", "version": "1"}, given)
	})
}
