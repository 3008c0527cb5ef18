package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kindexec "sigs.k8s.io/kind/pkg/exec"
	"sigs.k8s.io/yaml"
)

func TestKindsConfigurationIsWhatKubeadmUnderstands(t *testing.T) {
	t.Parallel()
	config := config("kcm-book-1", "image:1", "/host/shared")
	require.Equal(t, "kcm-book-1", config.Name)
	require.Len(t, config.Nodes, 1)
	require.Equal(t, "image:1", config.Nodes[0].Image)
	require.Equal(t, "/host/shared", config.Nodes[0].ExtraMounts[0].HostPath)
	kinds := []string{}
	for _, patch := range config.KubeadmConfigPatches {
		var object map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(patch), &object), patch)
		kinds = append(kinds, object["kind"].(string))
	}
	require.Equal(t, []string{"ClusterConfiguration", "InitConfiguration", "KubeletConfiguration"}, kinds)
}

func TestTheKubeletDoesNotRestartAComponentThatIsFrozen(t *testing.T) {
	t.Parallel()
	probe := &corev1.Probe{}
	probe.HTTPGet = &corev1.HTTPGetAction{Port: intstr.FromInt32(2381)}
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "etcd", Command: []string{"etcd"}, LivenessProbe: probe, StartupProbe: probe,
	}}}}
	original, err := json.Marshal(pod)
	require.NoError(t, err)
	patch, err := yaml.YAMLToJSON([]byte(podPatches()["etcd+strategic.yaml"]))
	require.NoError(t, err)
	merged, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Pod{})
	require.NoError(t, err)
	var patched corev1.Pod
	require.NoError(t, json.Unmarshal(merged, &patched))
	require.Len(t, patched.Spec.Containers, 1)
	require.Nil(t, patched.Spec.Containers[0].LivenessProbe)
	require.NotNil(t, patched.Spec.Containers[0].StartupProbe)
	require.Equal(t, []string{"etcd"}, patched.Spec.Containers[0].Command)
}

func TestOnlyTheAPIServerTrustsASecondKey(t *testing.T) {
	t.Parallel()
	patches := podPatches()
	require.Len(t, patches, 4)
	var operations []map[string]string
	require.NoError(t, yaml.UnmarshalStrict([]byte(patches["kube-apiserver+json.yaml"]), &operations))
	require.Equal(t, []map[string]string{{
		"op": "add", "path": "/spec/containers/0/command/-",
		"value": "--service-account-key-file=/lab/service-account-next.key",
	}}, operations)
}

func TestAnArchiveHasEachImageWithItsProgram(t *testing.T) {
	t.Parallel()
	images := map[string]v1.Image{}
	for _, version := range []string{"1", "2"} {
		image, err := imageOf("web", []byte("program"), "arm64", "VERSION="+version)
		require.NoError(t, err)
		images["web:"+version] = image
	}
	content, err := archive(images)
	require.NoError(t, err)
	for _, version := range []string{"1", "2"} {
		tag, err := name.NewTag("web:" + version)
		require.NoError(t, err)
		web, err := tarball.Image(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content.Bytes())), nil
		}, &tag)
		require.NoError(t, err)
		config, err := web.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, "arm64", config.Architecture)
		require.Equal(t, []string{"/web"}, config.Config.Entrypoint)
		require.Equal(t, []string{"VERSION=" + version}, config.Config.Env)
		files := mutate.Extract(web)
		defer files.Close()
		reader := tar.NewReader(files)
		header, err := reader.Next()
		require.NoError(t, err)
		program, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Equal(t, "-rwxr-xr-x web program", fmt.Sprintf("%s %s %s", header.FileInfo().Mode(), header.Name, program))
		_, err = reader.Next()
		require.Equal(t, io.EOF, err)
	}
}

// pretend puts programs into PATH, and nothing else, that are these shell scripts.
func pretend(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for program, script := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+script), 0o755))
	}
	t.Setenv("PATH", dir)
}

func TestWithoutAnEngineTheErrorSaysWhatToDo(t *testing.T) {
	pretend(t, nil)
	_, err := findEngine()
	require.ErrorIs(t, err, errNoEngine)
	require.EqualError(t, err, "CLUSTER=kind needs a container engine, and neither Docker nor Podman is installed: "+
		"install one, or unset CLUSTER to use the embedded cluster")

	pretend(t, map[string]string{"docker": `case $1 in -v) echo Docker version 99;; *) echo noise >&2; echo no daemon >&2; exit 1;; esac`})
	_, err = findEngine()
	require.ErrorIs(t, err, errNoEngine)
	require.EqualError(t, err, "CLUSTER=kind needs a container engine, and the one here does not answer: "+
		"start it, or unset CLUSTER to use the embedded cluster: no daemon")
}

func TestOnlyTheFilesOfTheNamedClusterAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, nameFile), []byte("kcm-book-1"), 0o600))
	require.NoError(t, removeFiles(dir, "kcm-book-2"))
	require.FileExists(t, filepath.Join(dir, nameFile))

	_, err := prepareDir(dir)
	require.ErrorContains(t, err, "already holds a kind cluster")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	require.ErrorContains(t, removeFiles(dir, "kcm-book-1"), "its directory stays")
	require.FileExists(t, filepath.Join(dir, "mine"))
	_, err = prepareDir(dir)
	require.ErrorContains(t, err, "is not empty")
}

func TestAnErrorOfKindIsTheLineThatSaysWhy(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"much\nno space left\n": "no space left",
		"docker: Error response from daemon: no space left.\nSee 'docker run --help'.\n":                        "docker: Error response from daemon: no space left.",
		"[init] Using v1\nerror: the node is lame\n\nTo see the stack trace of this error execute with --v=5\n": "error: the node is lame",
		"": "command \"docker run\" failed with error: exit status 1",
	} {
		err := &kindexec.RunError{Command: []string{"docker", "run"}, Output: []byte(said),
			Inner: errors.New("exit status 1")}
		require.EqualError(t, saidBy(fmt.Errorf("create: %w", err)), want)
	}
	other := errors.New("other")
	require.Equal(t, other, saidBy(other))
}
