// Package view shows what the loops of a controller manager do while they do it:
// a page with lanes for Deployments, ReplicaSets, pods and the loops themselves.
//
// It tells of two sources. The recording of labs/history says what the API server
// has, of kcm and of the original alike. The trace of kcm (kcm/trace) says what
// each sync has observed, decided and done. Both become moments: a line of text,
// and the nodes of the scene that it changes. A page, and a file that was
// exported, play moments and know nothing else, so a step back is exact.
//
// What is guaranteed: the page is served on localhost only, under a token, and
// nothing is written to the cluster but through the deeds that who serves it has
// allowed. A page that does not keep up delays nobody.
package view
