package cluster

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// webVersions are the tags of the image web that a kind cluster has.
var webVersions = []string{"1", "2", "3"}

// loadWeb builds labs/web, makes images of it and loads them into the node, so that pods find them there.
func (c *kindCluster) loadWeb(ctx context.Context) error {
	program, err := c.build(ctx, filepath.Join("labs", "web"))
	if err != nil {
		return err
	}
	archive, err := webArchive(program, c.arch)
	if err != nil {
		return fmt.Errorf("make the images of web: %w", err)
	}
	return c.loadImages(ctx, "web", archive)
}

// loadImages loads the images in an archive into the node.
func (c *kindCluster) loadImages(ctx context.Context, what string, archive io.Reader) error {
	if err := nodeutils.LoadImageArchive(c.node, archive); err != nil {
		return fmt.Errorf("load the images of %s into node %s: %w", what, c.node, saidBy(err))
	}
	return ctx.Err()
}

// webArchive returns an archive, as `docker save` would make it, of an image for each version. They differ in what the
// program says that it is, and share the rest.
func webArchive(program []byte, arch string) (io.Reader, error) {
	layer, err := programLayer("web", program)
	if err != nil {
		return nil, err
	}
	images := map[name.Tag]v1.Image{}
	for _, version := range webVersions {
		tag, err := name.NewTag("web:" + version)
		if err != nil {
			return nil, err
		}
		if images[tag], err = programImage(layer, arch, "/web", "VERSION="+version); err != nil {
			return nil, err
		}
	}
	archive := &bytes.Buffer{}
	return archive, tarball.MultiWrite(images, archive)
}

// programImage is an image FROM scratch whose containers run a program.
func programImage(layer v1.Layer, arch, entrypoint string, env ...string) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture = "linux", arch
	config.Config.Entrypoint = []string{entrypoint}
	config.Config.Env = env
	return mutate.ConfigFile(image, config)
}

// programLayer is a file system with nothing in it but a program of that name.
func programLayer(name string, program []byte) (v1.Layer, error) {
	content := &bytes.Buffer{}
	files := tar.NewWriter(content)
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := files.Write(program); err != nil {
		return nil, err
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
}
