// Package namespace empties namespaces that are being deleted, and then lets
// go of them.
//
// What it guarantees: the finalizer "kubernetes" is taken away only after every
// resource that can be listed has been, with nothing found, five seconds or more
// after the deletion was noticed; and no other object is asked to go while a pod
// is left. What it does not: that finalizers on the objects are ever removed.
// Whoever put them there has to do that, and as long as he does not, the
// namespace stays and its conditions say why.
package namespace
