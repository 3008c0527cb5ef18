// Package latecache is what a model of a control loop stands on: the store of an API server, and informers that hear of
// its changes as late as a test likes.
//
// A real informer is behind the API server, most of the time by a few milliseconds, and by minutes when a machine is
// busy. Three things about it can be relied on, and they hold here: it sees the changes of one resource in their order;
// an object is in the cache before a handler is told of it; and after a broken watch it lists what there is now, so
// what came and went in between it never sees. How far two informers are behind each other cannot be relied on.
package latecache
