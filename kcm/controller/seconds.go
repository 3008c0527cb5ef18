package controller

import (
	"math"
	"time"
)

// Seconds returns the duration of so many seconds, but no more than a Duration
// holds, which is 292 years. The API server takes any 64-bit number for a
// deadline or a grace period, and the product with time.Second of one that is too
// large is any number at all, also a negative one. (32 bits are never too large.)
func Seconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	return time.Duration(min(max(n, -most), most)) * time.Second
}
