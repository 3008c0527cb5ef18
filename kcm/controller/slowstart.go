package controller

// SlowStart calls create with 0, 1 and so on, count times at most, and returns how
// often it has succeeded and the first error.
//
// However many calls fail, at most one more has failed than have succeeded: a
// quota that refuses most pods of a large set does not cause an event for each of
// them. A pod that is refused for a reason of its own ends the creation of all others
// only if it is the first. Within that bound no call waits for another. create is
// called by several goroutines, and by none any more when SlowStart has returned.
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
