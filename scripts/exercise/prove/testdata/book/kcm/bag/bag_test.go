package bag

import "testing"

func TestBag(t *testing.T) {
	t.Run("it holds all", func(t *testing.T) {
		b := New()
		if b.Put(3) != 3 || b.Put(4) != 7 {
			t.Error("it does not")
		}
	})
}
