package shop

import "testing"

func TestDiscount(t *testing.T) {
	t.Run("half of it", func(t *testing.T) {
		if seen := discount(10, 50); seen != 5 {
			t.Errorf("expected 5, seen %d", seen)
		}
	})
}

func TestNothing(t *testing.T) {
	t.Run("nothing is nothing", func(*testing.T) {})
}
