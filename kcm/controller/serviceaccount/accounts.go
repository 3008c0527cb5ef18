package serviceaccount

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

// ServiceAccountsController creates the ServiceAccounts that every active
// namespace ought to have, and creates them again when they are deleted. It
// never changes one that exists, and leaves namespaces alone that are being
// deleted.
type ServiceAccountsController struct {
	client     kubernetes.Interface
	wanted     []corev1.ServiceAccount
	namespaces corelisters.NamespaceLister
	accounts   corelisters.ServiceAccountLister
	synced     []cache.InformerSynced
	loop       *controller.Loop[cache.ObjectName]
}

// ServiceAccountsControllerOptions says what a [ServiceAccountsController]
// sees to.
type ServiceAccountsControllerOptions struct {
	// ServiceAccounts are the accounts that every namespace gets. Their
	// namespaces are ignored.
	ServiceAccounts []corev1.ServiceAccount
}

// DefaultServiceAccountsControllerOptions asks for the one account that pods
// use unless they name another.
func DefaultServiceAccountsControllerOptions() ServiceAccountsControllerOptions {
	return ServiceAccountsControllerOptions{
		ServiceAccounts: []corev1.ServiceAccount{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}},
	}
}

// NewServiceAccountsController returns a controller that reads the two
// informers, which the caller starts, and writes through client.
func NewServiceAccountsController(
	saInformer coreinformers.ServiceAccountInformer,
	nsInformer coreinformers.NamespaceInformer,
	client kubernetes.Interface,
	options ServiceAccountsControllerOptions,
) *ServiceAccountsController {
	c := &ServiceAccountsController{
		client:     client,
		wanted:     options.ServiceAccounts,
		namespaces: nsInformer.Lister(),
		accounts:   saInformer.Lister(),
	}
	c.loop = controller.NewLoop(controller.LoopConfig[cache.ObjectName]{
		Name:       "serviceaccount-controller",
		QueueName:  "serviceaccount",
		Sync:       c.sync,
		MaxRetries: controller.RetryForever,
	})
	c.synced = []cache.InformerSynced{
		controller.Handle(nsInformer.Informer(), controller.Handlers[*corev1.Namespace]{
			Add:    func(ns *corev1.Namespace) { c.wake(ns.Name) },
			Update: func(_, ns *corev1.Namespace) { c.wake(ns.Name) },
		}),
		controller.Handle(saInformer.Informer(), controller.Handlers[*corev1.ServiceAccount]{
			Delete: func(account *corev1.ServiceAccount) { c.wake(account.Namespace) },
		}),
	}
	return c
}

// wake asks for a namespace to be looked at. Whatever happened to which
// ServiceAccount, the question is the same: what does its namespace lack?
func (c *ServiceAccountsController) wake(namespace string) {
	c.loop.Add(cache.NewObjectName("", namespace))
}

// Run works until ctx ends and the last worker has finished.
func (c *ServiceAccountsController) Run(ctx context.Context, workers int) {
	c.loop.Run(ctx, workers, c.synced...)
}

func (c *ServiceAccountsController) sync(ctx context.Context, key cache.ObjectName) error {
	seen, err := c.observe(key.Name)
	if err != nil {
		return err
	}
	missing := decideAccounts(seen, c.wanted)
	err = c.act(ctx, missing)
	if err == nil && len(missing) > 0 { // nobody tells us of one that goes before our cache has it
		c.loop.AddAfter(key, controller.LookAgain)
	}
	return err
}

type observedNamespace struct {
	namespace *corev1.Namespace // nil when it is gone
	accounts  []*corev1.ServiceAccount
}

func (c *ServiceAccountsController) observe(namespace string) (seen observedNamespace, err error) {
	seen.namespace, err = c.namespaces.Get(namespace)
	if apierrors.IsNotFound(err) {
		return observedNamespace{}, nil
	}
	if err != nil {
		return seen, fmt.Errorf("look up namespace %s: %w", namespace, err)
	}
	seen.accounts, err = c.accounts.ServiceAccounts(namespace).List(labels.Everything())
	if err != nil {
		return seen, fmt.Errorf("list service accounts of namespace %s: %w", namespace, err)
	}
	return seen, nil
}

// decideAccounts returns the ServiceAccounts that are wanted in a namespace
// and not there.
func decideAccounts(seen observedNamespace, wanted []corev1.ServiceAccount) []*corev1.ServiceAccount {
	if seen.namespace == nil || seen.namespace.Status.Phase != corev1.NamespaceActive {
		return nil
	}
	exists := map[string]bool{}
	for _, account := range seen.accounts {
		exists[account.Name] = true
	}
	var missing []*corev1.ServiceAccount
	for _, template := range wanted {
		if exists[template.Name] {
			continue
		}
		account := template.DeepCopy()
		account.Namespace = seen.namespace.Name
		missing = append(missing, account)
	}
	return missing
}

// act creates the ServiceAccounts, as far as the API server lets it. It returns
// an error if something is left to be done.
func (c *ServiceAccountsController) act(ctx context.Context, missing []*corev1.ServiceAccount) error {
	var errs []error
	for _, account := range missing {
		_, err := c.client.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{})
		switch {
		case err == nil:
			klog.FromContext(ctx).V(4).Info("Created service account", "serviceAccount", klog.KObj(account))
		case apierrors.IsAlreadyExists(err):
			// Somebody was faster than our cache.
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			// The namespace is being deleted and our cache does not know yet.
		default:
			errs = append(errs, fmt.Errorf("create service account %s: %w", klog.KObj(account), err))
		}
	}
	return errors.Join(errs...)
}
