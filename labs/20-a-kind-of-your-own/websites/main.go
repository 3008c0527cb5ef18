// Command websites runs the controller of a kind of one's own, Website: each of
// a website's pages is a ConfigMap.
package main

import (
	"context"
	"flag"
	"os"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/kcm-book/kcm-book/kcm/app"
)

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the API server, if not as a pod does")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err == nil {
		err = app.Lead(server.SetupSignalContext(), config, "default", "website-controller",
			func(ctx context.Context) error { return run(ctx, config) })
	}
	if err != nil {
		klog.ErrorS(err, "The website controller has ended")
		os.Exit(1)
	}
}

// run runs the controller until ctx ends and all that it has started has
// stopped.
func run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	siteClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	sites := dynamicinformer.NewDynamicSharedInformerFactory(siteClient, 0)
	builtIn := informers.NewSharedInformerFactory(client, 0)
	c, err := newController(sites.ForResource(websites).Informer(), builtIn.Core().V1().ConfigMaps(), siteClient, client)
	if err != nil {
		return err
	}
	sites.Start(ctx.Done())
	builtIn.Start(ctx.Done())
	defer sites.Shutdown()
	defer builtIn.Shutdown()
	c.loop.Run(ctx, 2, c.synced...)
	return nil
}
