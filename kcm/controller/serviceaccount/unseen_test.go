package serviceaccount

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kcm-book/kcm-book/kcm/controller"
)

func TestAnAccountIsMadeAgainThatGoesBeforeTheCacheHasIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
		nothing := watch.NewFake() // which tells of no account
		client.PrependWatchReactor("serviceaccounts", clienttesting.DefaultWatchReactor(nothing, nil))
		factory := informers.NewSharedInformerFactory(client, 0)
		c := NewServiceAccountsController(factory.Core().V1().ServiceAccounts(), factory.Core().V1().Namespaces(), client, DefaultServiceAccountsControllerOptions())
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx, 1) })
		factory.Start(ctx.Done())
		defer func() { cancel(); nothing.Stop(); running.Wait(); factory.Shutdown() }()

		accounts := client.CoreV1().ServiceAccounts("team-a")
		time.Sleep(controller.LookAgain / 2) // on the clock of the bubble
		require.NoError(t, accounts.Delete(ctx, "default", metav1.DeleteOptions{}), "it was made")
		time.Sleep(controller.LookAgain)
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		require.NoError(t, err, "it is there again")
	})
}
