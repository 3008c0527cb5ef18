package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/listers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// Controller keeps the pages of Websites.
type Controller struct {
	loop         *controller.Loop[cache.ObjectName]
	expectations *controller.Expectations
	synced       []cache.InformerSynced

	// What is cached of Websites and ConfigMaps, and how to reach the real ones.
	sites      listers.ResourceIndexer[*Website]
	pages      corelisters.ConfigMapLister
	siteClient dynamic.NamespaceableResourceInterface
	client     kubernetes.Interface
}

// newController returns the loop, and has the informers wake it. Neither of
// them may have been started.
func newController(
	sites cache.SharedIndexInformer,
	pages coreinformers.ConfigMapInformer,
	siteClient dynamic.Interface,
	client kubernetes.Interface,
) (*Controller, error) {
	if err := sites.SetTransform(toWebsite); err != nil {
		return nil, err
	}
	c := &Controller{
		expectations: controller.NewExpectations(clock.RealClock{}),
		sites:        listers.New[*Website](sites.GetIndexer(), websites.GroupResource()),
		pages:        pages.Lister(),
		siteClient:   siteClient.Resource(websites),
		client:       client,
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name: "website-controller", QueueName: "website", Sync: c.sync, MaxRetries: controller.RetryForever,
	})
	wake := func(site *Website) { c.loop.Add(cache.MetaObjectToName(site)) }
	waker := &controller.Waker[*Website, *corev1.ConfigMap]{
		Loop: c.loop,
		Kind: websiteKind.Kind,
		Get:  c.get,
		List: func(namespace string) ([]*Website, error) {
			return listers.NewNamespaced(c.sites, namespace).List(labels.Everything())
		},
		Selector:     selector,
		Expectations: c.expectations,
	}
	c.synced = []cache.InformerSynced{
		controller.Handle(sites, controller.Handlers[*Website]{
			Add: wake, Update: func(_, site *Website) { wake(site) }, Delete: wake,
		}),
		controller.Handle(pages.Informer(), waker.Handlers()),
	}
	return c, nil
}

func (c *Controller) get(key cache.ObjectName) (*Website, error) { return c.sites.Get(key.String()) }

// selector says which ConfigMaps a website wants.
func selector(site *Website) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{websiteLabel: site.Name}}
}

// sync brings the pages of one website closer to its spec, and its status to
// what was seen. After a conflict it writes no status.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(ctx, key)
	if err != nil || seen.site == nil {
		return err
	}
	failure := c.act(ctx, seen.site, decide(seen))
	if !c.expectations.Satisfied(seen.site) {
		c.loop.AddAfter(key, controller.ExpectationsTimeout)
	}
	if !errors.Is(failure, controller.ErrStaleCache) {
		failure = errors.Join(failure, c.updateStatus(ctx, seen.site, decideStatus(seen, failure)))
	}
	return failure
}

// observe reads the website and settles which pages are its own.
func (c *Controller) observe(ctx context.Context, key cache.ObjectName) (observed, error) {
	site, err := c.get(key)
	if apierrors.IsNotFound(err) {
		c.expectations.Forget(key)
		return observed{}, nil
	}
	if err != nil {
		return observed{}, err
	}
	// Before the pages are read, or it might speak of other ones.
	settled := c.expectations.Satisfied(site)
	all, err := c.pages.ConfigMaps(site.Namespace).List(labels.Everything())
	if err != nil {
		return observed{}, err
	}
	all = slices.DeleteFunc(all, func(page *corev1.ConfigMap) bool { return page.DeletionTimestamp != nil })
	pages, err := c.claim(ctx, site, all)
	return observed{site, pages, settled}, err
}

// claim returns the ConfigMaps that belong to the website, once it has adopted
// and released what is due. It returns them also when some of that has failed,
// together with the error.
func (c *Controller) claim(ctx context.Context, site *Website, all []*corev1.ConfigMap) ([]*corev1.ConfigMap, error) {
	claimer := controller.Claimer[*corev1.ConfigMap]{
		Owner:    site,
		Kind:     websiteKind,
		Selector: labels.SelectorFromSet(selector(site).MatchLabels),
		CanAdopt: controller.CanAdopt(site, func(ctx context.Context) (*Website, error) {
			fresh, err := c.siteClient.Namespace(site.Namespace).Get(ctx, site.Name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			website, err := toWebsite(fresh)
			if err != nil {
				return nil, err
			}
			return website.(*Website), nil
		}),
		Patch: func(ctx context.Context, page *corev1.ConfigMap, patch []byte) (*corev1.ConfigMap, error) {
			return c.client.CoreV1().ConfigMaps(page.Namespace).Patch(
				ctx, page.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		},
	}
	return claimer.Claim(ctx, all)
}

// act carries the plan out as far as it goes.
func (c *Controller) act(ctx context.Context, site *Website, p plan) error {
	client := c.client.CoreV1().ConfigMaps(site.Namespace)
	if len(p.create)+len(p.delete) > 0 {
		var going []types.UID
		for _, page := range p.delete {
			going = append(going, page.UID)
		}
		c.expectations.Expect(site, len(p.create), going...)
	}
	var errs []error
	for _, page := range p.create {
		if _, err := client.Create(ctx, page, metav1.CreateOptions{}); err != nil {
			c.expectations.CreationObserved(site)
			errs = append(errs, err)
		}
	}
	for _, page := range p.update {
		_, err := client.Update(ctx, page, metav1.UpdateOptions{})
		errs = append(errs, staleIfConflict(err))
	}
	for _, page := range p.delete {
		// Only as we have seen it. Somebody may have taken our label off since.
		err := client.Delete(ctx, page.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &page.UID, ResourceVersion: &page.ResourceVersion},
		})
		if err != nil {
			c.expectations.DeletionObserved(site, page.UID)
			errs = append(errs, staleIfConflict(err))
		}
	}
	return errors.Join(errs...)
}

// updateStatus writes the status if it has changed.
func (c *Controller) updateStatus(ctx context.Context, site *Website, status WebsiteStatus) error {
	if site.Status == status {
		return nil
	}
	patch, err := statusPatch(site, status)
	if err != nil {
		return err
	}
	sites := c.siteClient.Namespace(site.Namespace)
	_, err = sites.Patch(ctx, site.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return staleIfConflict(err)
}

// statusPatch is what writes a status. It is refused if the website has changed
// since it was read.
func statusPatch(site *Website, status WebsiteStatus) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": site.ResourceVersion},
		"status":   status,
	})
}

// staleIfConflict returns [controller.ErrStaleCache] for a request that was refused
// because its object has changed. That is nobody's failure, and hides no other one.
func staleIfConflict(err error) error {
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %v", controller.ErrStaleCache, err)
	}
	return err
}
