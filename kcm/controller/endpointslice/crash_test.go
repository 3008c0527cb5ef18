package endpointslice

import "github.com/kcm-book/kcm-book/kcm/controller"

// A panic is to be seen in a test, and not to be tried again.
func init() { controller.ReallyCrash.Store(true) }
