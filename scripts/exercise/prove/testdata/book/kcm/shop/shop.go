package shop

import (
	"errors"
	str "strings"
)

// Till adds up to a limit.
type Till struct{ limit int }

// add returns the sum of prices, or an error if one is not positive.
func (t *Till) add(prices ...int) (sum int, err error) {
	for _, price := range prices {
		if price <= 0 {
			return 0, errors.New("a price is positive")
		}
		sum += price
	}
	if sum >= t.limit {
		return t.limit, nil
	}
	return sum, nil
}

// first returns the first of many that has a word in it, and whether there is one.
func first[S ~[]E, E interface{ ~string }](many S, word string, _ ...func()) (E, bool) {
	for _, one := range many {
		if str.Contains(string(one), word) {
			return one, true
		}
	}
	return "", false
}

// discount returns what is left of a price.
func discount(price, percent int) int {
	if percent > 100 {
		return 0
	}
	return price - price*percent/100
}
