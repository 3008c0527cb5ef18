// Package garbagecollector deletes objects whose owners are gone.
//
// An object names its owners in its metadata, by kind, name and UID. The
// collector watches the metadata of every kind that can be deleted and keeps a
// graph of who depends on whom. Only informers change the graph, and each
// change says what is to be looked at. Workers look: they read the graph, ask the API
// server for owners that nobody has seen, decide, and write.
//
// What is guaranteed: an object is deleted only when each of its owners is gone
// or waits for its dependents to go, and only in the state in which it was judged. That
// an owner is gone is known from its deletion or from the API server, never
// from its absence in a cache.
//
// What is not: an object that refers to its owner only after the graph was
// asked for dependents is not waited for by a foreground deletion, and not
// spared by one that orphans.
package garbagecollector
