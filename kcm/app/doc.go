// Package app is the manager: it turns a command line into a running process
// that elects a leader among its replicas and runs the controllers there.
//
// It is read in this order: NewControllerManagerCommand (command.go), Run
// (run.go), lead (election.go), ControllerContext (context.go), the
// descriptors (descriptor.go, controllers.go) and StartControllers (start.go).
package app
