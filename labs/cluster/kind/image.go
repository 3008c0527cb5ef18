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
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/rogpeppe/go-internal/lockedfile"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/kcm-book/kcm-book/labs/process"
)

// Image is a container image FROM scratch.
type Image struct {
	// Name has a tag, and that is not latest: a kubelet would try to pull it.
	Name string
	// Files are all that it has, directories before what is in them.
	Files []File
	// Entrypoint, Command and Env, as NAME=value, are those of its containers.
	Entrypoint, Command, Env []string
}

// File is a program, a directory or a link in an image. Anybody may read it, and run it.
type File struct {
	// Path has no slash at its beginning. One at its end makes it a directory that anybody may write to.
	Path    string
	Content []byte
	// Target, if it is not empty, makes it a symbolic link.
	Target string
}

// webVersions are the tags of the image web that a kind cluster has.
var webVersions = []string{"1", "2", "3"}

// loadWeb builds labs/web, makes images of it and loads them into the node, so that pods find them there. They differ in what
// the program says that it is, and share the rest.
func (c *Cluster) loadWeb(ctx context.Context) error {
	program, err := build(ctx, c.root, "labs/web", c.arch, "-s -w")
	if err != nil {
		return err
	}
	var images []Image
	for _, version := range webVersions {
		images = append(images, programImage("web:"+version, "web", program, "VERSION="+version))
	}
	return c.LoadImages(ctx, "web", images...)
}

// LoadImages loads images into the node. Their programs are for its architecture.
func (c *Cluster) LoadImages(ctx context.Context, what string, images ...Image) error {
	content, err := archive(c.arch, images)
	if err != nil {
		return err
	}
	if err := nodeutils.LoadImageArchive(c.node, content); err != nil {
		return fmt.Errorf("load the images of %s into node %s: %w", what, c.node, saidBy(err))
	}
	return ctx.Err()
}

// ManagerImage is the name of kcm's image.
const ManagerImage = "kcm:lab"

// WriteManagerImage writes kcm's image, FROM scratch, to a file as `docker save` would. The program is built from the
// module in dir, for the machine that this runs on.
func WriteManagerImage(ctx context.Context, dir, file string) error {
	image, err := managerImage(ctx, dir, runtime.GOARCH)
	if err != nil {
		return err
	}
	content, err := archive(runtime.GOARCH, []Image{image})
	if err != nil {
		return err
	}
	return os.WriteFile(file, content.Bytes(), 0o644)
}

func managerImage(ctx context.Context, dir, arch string) (Image, error) {
	program, err := build(ctx, dir, "kcm/cmd/kcm", arch, "-s -w "+os.Getenv("KCM_LDFLAGS"))
	return programImage(ManagerImage, "kcm", program), err
}

// programImage is an image that has nothing but a program, which its containers run.
func programImage(image, program string, content []byte, env ...string) Image {
	return Image{Name: image, Files: []File{{Path: program, Content: content}}, Entrypoint: []string{"/" + program}, Env: env}
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
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w: %s", source, err, process.LastLines(string(said), 1))
	}
	return os.ReadFile(program)
}

// archive returns images as `docker save` would. What has the same files is in it once.
func archive(arch string, images []Image) (*bytes.Buffer, error) {
	tagged := map[name.Tag]v1.Image{}
	for _, image := range images {
		tag, err := name.NewTag(image.Name)
		if err != nil {
			return nil, err
		}
		if tagged[tag], err = image.on(arch); err != nil {
			return nil, fmt.Errorf("make the image %s: %w", image.Name, err)
		}
	}
	written := &bytes.Buffer{}
	return written, tarball.MultiWrite(tagged, written)
}

// on is the image for machines of an architecture.
func (i Image) on(arch string) (v1.Image, error) {
	layer, err := layerOf(i.Files)
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
	config.Config.Entrypoint, config.Config.Cmd, config.Config.Env = i.Entrypoint, i.Command, i.Env
	return mutate.ConfigFile(image, config)
}

// layerOf is a file system with nothing in it but files.
func layerOf(files []File) (v1.Layer, error) {
	content := &bytes.Buffer{}
	written := tar.NewWriter(content)
	for _, file := range files {
		if err := written.WriteHeader(file.header()); err != nil {
			return nil, err
		}
		if _, err := written.Write(file.Content); err != nil {
			return nil, err
		}
	}
	if err := written.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
}

func (f File) header() *tar.Header {
	switch {
	case f.Target != "":
		return &tar.Header{Name: f.Path, Typeflag: tar.TypeSymlink, Linkname: f.Target, Mode: 0o777}
	case strings.HasSuffix(f.Path, "/"):
		return &tar.Header{Name: f.Path, Typeflag: tar.TypeDir, Mode: 0o777}
	}
	return &tar.Header{Name: f.Path, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(f.Content))}
}
