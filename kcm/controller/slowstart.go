package controller

// SlowStart calls create with 0, 1 and so on, count times at most, and returns how
// often it has succeeded and the first error.
//
// Calls run at the same time, as many as a window allows. It starts at one and
// grows by one with each success, so it doubles with every round trip and none
// waits for the slowest of a batch. It shrinks by one with each failure, and with
// a window of none no call is launched any more. So however many pods a quota
// refuses, there is at most one failure more than there were successes, and not
// an event for each pod of a large set; and a pod that is refused for a reason of
// its own does not end the creation of all others. create is called by several
// goroutines.
func SlowStart(count int, create func(i int) error) (created int, failure error) {
	results := make(chan error)
	window, launched, running := 1, 0, 0
	for {
		for launched < count && running < window {
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
		if err == nil {
			created++
			window++
			continue
		}
		window--
		if failure == nil {
			failure = err
		}
	}
}
