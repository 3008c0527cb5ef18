package controller

// SlowStart calls create with 0, 1 and so on until it has succeeded count times
// or failed once, and returns how often it has succeeded and the first error.
//
// Calls run at the same time, as many as a window allows. It starts at one and
// grows by one with each success, so it doubles with every round trip and none
// waits for the slowest of a batch. After the first failure no call is
// launched; those that run already are waited for. So however many pods a
// quota refuses, there is at most one failure more than there were successes,
// and not an event for each pod of a large set. create is called by several
// goroutines.
func SlowStart(count int, create func(i int) error) (created int, failure error) {
	results := make(chan error)
	window, launched, running := 1, 0, 0
	for {
		for failure == nil && launched < count && running < window {
			i := launched
			launched++
			running++
			go func() { results <- create(i) }()
		}
		if running == 0 {
			return created, failure
		}
		err := <-results
		running--
		switch {
		case err == nil:
			created++
			window++
		case failure == nil:
			failure = err
		}
	}
}
