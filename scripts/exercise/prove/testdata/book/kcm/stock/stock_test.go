package stock

import "testing"

func TestStock(t *testing.T) {
	t.Run("one too many", func(t *testing.T) {
		if seen := inStock([]string{"a"}); seen != 2 {
			t.Errorf("expected 2, seen %d", seen)
		}
	})
}
