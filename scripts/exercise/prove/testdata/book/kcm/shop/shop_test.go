package shop

import "testing"

func TestAdd(t *testing.T) {
	for name, tt := range map[string]struct {
		prices []int
		want   int
		fails  bool
	}{
		"prices are added":         {[]int{1, 2, 4}, 7, false},
		"one cent counts":          {[]int{1}, 1, false},
		"no price is nothing":      {nil, 0, false},
		"the limit is not passed":  {[]int{60, 60}, 100, false},
		"a price is not for free":  {[]int{3, 0}, 0, true},
		"a price is not a present": {[]int{3, -1}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, err := (&Till{limit: 100}).add(tt.prices...)
			if seen != tt.want || (err != nil) != tt.fails {
				t.Errorf("expected %d, seen %d, %v", tt.want, seen, err)
			}
		})
	}
}

func TestFirst(t *testing.T) {
	t.Run("by word", func(t *testing.T) {
		t.Run("the first that has the word", func(t *testing.T) {
			if one, ok := first([]string{"a", "bc", "bd"}, "b"); !ok || one != "bc" {
				t.Errorf("expected bc, seen %q, %v", one, ok)
			}
		})
		t.Run("none has the word", func(t *testing.T) {
			if one, ok := first([]string{"b"}, "x", func() {}); ok {
				t.Errorf("expected none, seen %q", one)
			}
		})
	})
}
