package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/process"
)

// loadWeb builds labs/web, makes images of it and loads them into each node, so that pods find them there. They differ
// in what the program says that it is, and share the rest.
func (c *kindCluster) loadWeb(ctx context.Context) error {
	program, err := build(ctx, "labs/web", c.arch, "-s -w")
	if err != nil {
		return err
	}
	images := map[string]v1.Image{}
	for _, version := range []string{"1", "2", "3"} {
		if images["web:"+version], err = imageOf("web", program, c.arch, "VERSION="+version); err != nil {
			return err
		}
	}
	content, err := archive(images)
	if err != nil {
		return err
	}
	for _, node := range c.nodes {
		if err := nodeutils.LoadImageArchive(node, bytes.NewReader(content.Bytes())); err != nil {
			return fmt.Errorf("load the images of web into node %s: %w", node, saidBy(err))
		}
	}
	return ctx.Err()
}

// managerImage is the name of kcm's image. A kubelet would try to pull one whose tag is latest.
const managerImage = "kcm:lab"

// writeManagerImage writes kcm's image to a file as `docker save` would. It is for the architecture of this machine, and
// has kcm where the original's has its program: kubeadm's manifest, which runs that by its bare name, is good for both.
func writeManagerImage(ctx context.Context, file string) error {
	program, err := build(ctx, "kcm/cmd/kcm", runtime.GOARCH, "-s -w "+os.Getenv("KCM_LDFLAGS"))
	if err != nil {
		return err
	}
	image, err := imageOf("usr/local/bin/"+builtInManager, program, runtime.GOARCH)
	if err != nil {
		return err
	}
	tag, _ := name.NewTag(managerImage) // the name is ours
	return tarball.WriteToFile(file, tag, image)
}

// build builds a program of ours for Linux, such that it needs nothing but a kernel.
func build(ctx context.Context, source, arch, ldflags string) ([]byte, error) {
	root, err := cluster.Root()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(root, "bin", filepath.Base(source)+"-linux-"+arch)
	unlock, err := cluster.Lock(filepath.Join(root, "bin", ".kind.lock"))
	if err != nil {
		return nil, fmt.Errorf("lock the build of %s: %w", source, err)
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags="+ldflags, "-o", program, "./"+source)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w: %s", source, err, process.LastLines(string(said), 1))
	}
	return os.ReadFile(program)
}

// imageOf is an image FROM scratch that has nothing but a program, which its containers run.
func imageOf(program string, content []byte, arch string, env ...string) (v1.Image, error) {
	files := &bytes.Buffer{}
	written := tar.NewWriter(files)
	header := &tar.Header{Name: program, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}
	headerErr := written.WriteHeader(header)
	_, contentErr := written.Write(content)
	if err := cmp.Or(headerErr, contentErr, written.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture = "linux", arch
	config.Config.Entrypoint, config.Config.Env = []string{"/" + program}, env
	return mutate.ConfigFile(image, config)
}

// archive returns images, by their names, as `docker save` would. What has the same files is in it once.
func archive(images map[string]v1.Image) (*bytes.Buffer, error) {
	tagged := map[name.Tag]v1.Image{}
	for image, content := range images {
		tag, _ := name.NewTag(image) // the names are ours
		tagged[tag] = content
	}
	written := &bytes.Buffer{}
	return written, tarball.MultiWrite(tagged, written)
}
