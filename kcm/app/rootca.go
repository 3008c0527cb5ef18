package app

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
)

// rootCA are the certificates by which pods recognise the API server: those of
// --root-ca-file or else those that the manager itself goes by.
type rootCA struct {
	// current returns them, in PEM.
	current func() []byte
	// file is that of --root-ca-file, or nil.
	file *dynamiccertificates.DynamicFileCAContent
}

// newRootCA reads the certificates. The name is that of who gives them out, in
// logs and metrics.
func newRootCA(c *ControllerContext, name string) (rootCA, error) {
	if path := c.ComponentConfig.SAController.RootCAFile; path != "" {
		file, err := dynamiccertificates.NewDynamicCAContentFromFile(name, path)
		if err != nil {
			return rootCA{}, fmt.Errorf("--root-ca-file=%s: %w", path, err)
		}
		return rootCA{current: file.CurrentCABundleContent, file: file}, nil
	}
	kubeconfig := rest.CopyConfig(c.RootClientBuilder.ConfigOrDie("root-ca"))
	if err := rest.LoadTLSFiles(kubeconfig); err != nil {
		return rootCA{}, fmt.Errorf("read the certificates that the kubeconfig names: %w", err)
	}
	return rootCA{current: func() []byte { return kubeconfig.CAData }}, nil
}

// followedBy returns the loop that also watches the file, if there is one, and
// is woken when the certificates in it are others.
func (ca rootCA) followedBy(loop interface {
	Loop
	dynamiccertificates.Listener
}) Loop {
	if ca.file == nil {
		return loop
	}
	ca.file.AddListener(loop)
	return fileFollower{loop, ca.file}
}

// fileFollower is a loop together with the watch of a file that it uses.
type fileFollower struct {
	Loop
	file *dynamiccertificates.DynamicFileCAContent
}

// Run watches the file for as long as the loop runs.
func (f fileFollower) Run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.file.Run(ctx, 1) })
	f.Loop.Run(ctx, workers)
}
