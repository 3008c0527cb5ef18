package kind

import (
	"archive/tar"
	"bytes"
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
	"github.com/rogpeppe/go-internal/lockedfile"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// webVersions are the tags of the image web that a kind cluster has.
var webVersions = []string{"1", "2", "3"}

// loadWeb builds labs/web, makes images of it and loads them into the node, so that pods find them there.
func (c *Cluster) loadWeb(ctx context.Context) error {
	program, err := build(ctx, c.root, "labs/web", c.arch, "-s -w")
	if err != nil {
		return err
	}
	archive, err := webArchive(program, c.arch)
	if err != nil {
		return err
	}
	return c.loadImages(ctx, "web", archive)
}

// loadImages loads the images in an archive into the node.
func (c *Cluster) loadImages(ctx context.Context, what string, archive io.Reader) error {
	if err := nodeutils.LoadImageArchive(c.node, archive); err != nil {
		return fmt.Errorf("load the images of %s into node %s: %w", what, c.node, saidBy(err))
	}
	return ctx.Err()
}

// webArchive has an image for each version. They differ in what the program says that it is, and share the rest.
func webArchive(program []byte, arch string) (io.Reader, error) {
	environments := map[string][]string{}
	for _, version := range webVersions {
		environments["web:"+version] = []string{"VERSION=" + version}
	}
	return archive("web", program, arch, environments)
}

// ManagerImage is the name of kcm's image.
const ManagerImage = "kcm:lab"

// WriteManagerImage writes kcm's image, FROM scratch, to a file as `docker save` would. The program is built from the
// module in dir, for the machine that this runs on.
func WriteManagerImage(ctx context.Context, dir, file string) error {
	archive, err := managerArchive(ctx, dir, runtime.GOARCH)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

func managerArchive(ctx context.Context, dir, arch string) (io.Reader, error) {
	program, err := build(ctx, dir, "kcm/cmd/kcm", arch, "-s -w "+os.Getenv("KCM_LDFLAGS"))
	if err != nil {
		return nil, err
	}
	return archive("kcm", program, arch, map[string][]string{ManagerImage: nil})
}

// archive returns images, as `docker save` would, FROM scratch, of one program. Each has its own environment.
func archive(program string, content []byte, arch string, environments map[string][]string) (io.Reader, error) {
	layer, err := programLayer(program, content)
	if err != nil {
		return nil, fmt.Errorf("make the images of %s: %w", program, err)
	}
	images := map[name.Tag]v1.Image{}
	for image, environment := range environments {
		tag, err := name.NewTag(image)
		if err != nil {
			return nil, err
		}
		if images[tag], err = programImage(layer, arch, "/"+program, environment); err != nil {
			return nil, fmt.Errorf("make the image %s: %w", image, err)
		}
	}
	written := &bytes.Buffer{}
	return written, tarball.MultiWrite(images, written)
}

// build builds a program of the module in dir for Linux, such that it needs nothing but a kernel.
func build(ctx context.Context, dir, source, arch, ldflags string) ([]byte, error) {
	program := filepath.Join(dir, "bin", filepath.Base(source)+"-linux-"+arch)
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return nil, err
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(dir, "bin", ".kind.lock")).Lock()
	if err != nil {
		return nil, fmt.Errorf("lock the build of %s: %w", source, err)
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags="+ldflags, "-o", program, "./"+source)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if _, err := outputOf(cmd); err != nil {
		return nil, fmt.Errorf("build %s: %w", source, err)
	}
	return os.ReadFile(program)
}

// programImage is an image FROM scratch whose containers run a program.
func programImage(layer v1.Layer, arch, entrypoint string, env []string) (v1.Image, error) {
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
