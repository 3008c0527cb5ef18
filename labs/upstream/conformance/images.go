package conformance

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/kubernetes/test/utils/image"

	"github.com/kcm-book/kcm-book/labs/cluster"
)

// images are those that the specs use, by the names that they go by there. agnhost is upstream's program in an image with
// Debian's busybox; the others are busybox alone, which serves a page where upstream has nginx.
func images(ctx context.Context, root string) ([]cluster.Image, error) {
	shell, err := busybox(ctx)
	if err != nil {
		return nil, err
	}
	agnhost, err := os.ReadFile(filepath.Join(root, "build", "upstream", "bin", "agnhost"))
	if err != nil {
		return nil, err
	}
	// The specs that break a probe take this file away, and put it back.
	withAgnhost := append(shell, cluster.File{Path: "agnhost", Content: agnhost}, cluster.File{Path: "localhost.crt"},
		cluster.File{Path: "bin/curl", Content: []byte(curl)})
	page := append(shell, cluster.File{Path: "www/"}, cluster.File{Path: "www/index.html", Content: []byte("It works.\n")})
	serve := []string{"/bin/busybox", "httpd", "-f", "-p", "80", "-h", "/www"}
	pause := []string{"/agnhost", "pause"}
	return []cluster.Image{
		{Name: image.GetE2EImage(image.Agnhost), Files: withAgnhost, Entrypoint: pause[:1], Command: pause[1:]},
		{Name: image.GetE2EImage(image.AgnhostPrev), Files: withAgnhost, Entrypoint: pause[:1], Command: pause[1:]},
		{Name: image.GetE2EImage(image.Pause), Files: withAgnhost, Entrypoint: pause},
		{Name: image.GetE2EImage(image.BusyBox), Files: shell, Command: []string{"sh"}},
		{Name: image.GetE2EImage(image.Nginx), Files: page, Command: serve},
		{Name: image.GetE2EImage(image.NginxNew), Files: page, Command: serve},
	}, nil
}

// curl stands in for the program of that name as the specs call it: the last of its arguments is HOST:PORT/PATH. It does
// without busybox's wget, which looks for a name service even then, and dies where there is none.
const curl = `#!/bin/sh
for address; do :; done
host=${address%%/*}
printf 'GET /%s HTTP/1.0\r\n\r\n' "${address#*/}" | nc -w 30 "${host%:*}" "${host#*:}" | tr -d '\r' | sed '1,/^$/d'
`

// busybox is a file system with this machine's busybox and a link for each command that it knows.
func busybox(ctx context.Context) ([]cluster.File, error) {
	path, err := exec.LookPath("busybox")
	if err == nil {
		err = linksNothing(path)
	}
	if err != nil {
		return nil, fmt.Errorf("the specs' images need a busybox without shared libraries, Debian's busybox-static for example: %w", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	commands, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s what it knows: %w", path, err)
	}
	files := []cluster.File{{Path: "tmp/"}, {Path: "bin/"}, {Path: "bin/busybox", Content: program}}
	for command := range strings.FieldsSeq(string(bytes.TrimSpace(commands))) {
		if command != "busybox" {
			files = append(files, cluster.File{Path: "bin/" + command, Target: "busybox"})
		}
	}
	return files[:len(files):len(files)], nil
}

// linksNothing is an error if a program needs shared libraries.
func linksNothing(path string) error {
	program, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	if err == nil && len(libraries) > 0 {
		err = errors.New(path + " needs " + strings.Join(libraries, ", "))
	}
	return err
}
