// Package cleaner deletes requests for certificates that have had their time. Who
// asks for a certificate takes it, and leaves the request where it is: a kubelet
// makes a new one for each renewal, and one after another while it gets no answer.
package cleaner

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Controller deletes each request of one kind as soon as its time is over. Two kinds
// have one: see [NewCSRCleanerController] and [NewPCRCleanerController].
type Controller[T metav1.Object] struct {
	// cached returns the request of that name.
	cached func(cache.ObjectName) (T, error)
	// endOf returns when a request is to go. It is not ok for one that may stay for
	// ever, as it is.
	endOf func(T) (e end, ok bool)
	// remove deletes the request of that name.
	remove func(context.Context, cache.ObjectName, metav1.DeleteOptions) error
	synced cache.InformerSynced
	loop   *controller.Loop[cache.ObjectName]
}

// end is when the time of a request is over, and why.
type end struct {
	at  time.Time
	why string
}

// watch has the controller look at each request that the informer shows, which the
// caller starts. The name is that of the loop.
func (c *Controller[T]) watch(informer cache.SharedIndexInformer, name, queue string) *Controller[T] {
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       name,
		QueueName:  queue,
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	changed := func(request T) { c.loop.Add(cache.MetaObjectToName(request)) }
	c.synced = controller.Handle(informer, controller.Handlers[T]{
		Add:    changed,
		Update: func(_, request T) { changed(request) },
	})
	return c
}

// Run waits until the cache is filled and then works, as many requests at a time as
// there are workers, until ctx ends and the last worker has finished. A deletion that
// fails is tried again, ever less often. That a request is gone, or that another has
// its name by now, is no failure.
func (c *Controller[T]) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced)
}

// sync deletes a request whose time is over, and has one whose time will come looked
// at again then. By then it may have been answered, or be another request.
func (c *Controller[T]) sync(ctx context.Context, key cache.ObjectName) error {
	request, err := c.cached(key)
	if err != nil {
		return nil // it is gone: a cache has no other error
	}
	over, ok := c.endOf(request)
	if !ok || request.GetDeletionTimestamp() != nil {
		return nil
	}
	if left := time.Until(over.at); left > 0 {
		c.loop.AddAfter(key, left)
		return nil
	}
	return c.delete(ctx, request, over.why)
}

// delete deletes the request as it was looked at: no other of its name, and none that
// was written since. A kubelet that asks for its first certificate uses the same name
// again and again, and a request may be answered in its last second.
func (c *Controller[T]) delete(ctx context.Context, request T, why string) error {
	err := c.remove(ctx, cache.MetaObjectToName(request), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: new(request.GetUID()), ResourceVersion: new(request.GetResourceVersion()),
	}})
	if controller.IsGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete request %s: %w", klog.KObj(request), err)
	}
	klog.FromContext(ctx).Info("Deleted a request for a certificate", "request", klog.KObj(request), "why", why)
	return nil
}
