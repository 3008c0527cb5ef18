// Package resourcequota counts what the objects of a namespace use, and writes
// it into the status of its ResourceQuotas.
//
// A quota is kept by two programs. The API server refuses what would exceed it,
// and adds what it lets in to the status, before it stores the object. This loop
// writes the sum over the objects that there are: first of all for a quota that
// has none yet, by which the API server does not go before. Then it subtracts what
// goes or is used less, which the API server does not, and what the API server has
// charged and not stored.
//
// What is guaranteed: when nothing changes any more, the status of each quota is
// the sum over the objects of its namespace and its scopes, by the rules that
// the API server charges by. A quota that counts what no kind of the API server
// has keeps what its status says of that.
//
// And at any time the status includes what the API server has charged for objects
// that are there or on their way, also if informers do not show them yet: those of
// one resource may be late by half a minute.
//
// What is not: that a charge of what was never stored goes while other objects keep
// coming. Each may be the one that was charged. It goes after five seconds in which
// fewer come than there are such charges.
//
// Nor that the first sum of a quota includes what was created shortly
// before. The API server has not charged it. It is added when its informer shows
// it; and if it has gone before that, a charge that is on its way may be missing
// in the status until its object is shown.
package resourcequota
