// Package resourcequota counts what the objects of a namespace use, and writes
// it into the status of its ResourceQuotas.
//
// A quota is kept by two programs. The API server refuses what would exceed it,
// and adds what it lets in to the status, before it stores the object. This loop
// writes the sum over the objects that there are: first of all for a quota that
// has none yet, by which the API server does not go before, and then whenever
// something goes or uses less, which the API server does not subtract.
//
// What is guaranteed: when nothing changes any more, the status of each quota is
// the sum over the objects of its namespace and its scopes, by the rules that
// the API server charges by. A quota that counts what no kind of the API server
// has keeps what its status says of that.
//
// What is not: that a sum includes an object which the API server has charged
// and whose informer does not show it yet. Such a sum is too low for as long as
// the informer is late, and is put right when the object appears.
package resourcequota
