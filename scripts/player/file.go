package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/kcm-book/kcm-book/labs/cluster"
	"github.com/kcm-book/kcm-book/labs/play"
	"github.com/kcm-book/kcm-book/labs/process"
)

// playFile plays somebody's own script, with all loops of the finished kcm, or
// of the original. One with steps starts its managers itself, as a lab does.
func playFile(ctx context.Context, args []string) (err error) {
	l := lab{name: "script", dir: filepath.Dir(args[0])}
	if l.script, err = play.ReadScript(args[0], l.manifests()...); err != nil {
		return err
	}
	narrator := newNarrator()
	if len(l.script.Steps) > 0 {
		return l.play(ctx, narrator)
	}
	s, end, err := allLoops(ctx, narrator, os.Getenv("REFERENCE") == "1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	s.Manifests, s.Keep = l.manifests(), os.Getenv("KEEP") != ""
	_, err = s.Perform(ctx, l.script)
	return err
}

// finished is the program of the finished kcm, or the one that KCM names.
func finished() (program string, err error) {
	program, _ = filepath.Abs(cmp.Or(os.Getenv("KCM"), filepath.Join("bin", "kcm"))) // inRoot knows the directory
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%w: run make bin/kcm first", err)
	}
	return program, nil
}

// allLoops starts a cluster with a manager that runs all loops. What it has started ends with end.
func allLoops(ctx context.Context, narrator play.Narrator, reference bool,
) (s *play.Setting, end func() error, err error) {
	program, err := finished()
	if err != nil {
		return nil, nil, err
	}
	c, err := startCluster(ctx, narrator)
	if err != nil {
		return nil, nil, err
	}
	s = &play.Setting{Cluster: c, Narrator: narrator}
	if s.Manager, err = play.NewManager(ctx, c, reference, program); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	closeAll := c.Close
	if loop := os.Getenv("LOOP"); loop != "" && !reference {
		// A program with a loop of its own for ReplicaSets, as chapter 00 has one, works beside kcm's other loops.
		isIts := func(name string) bool { return name == "replicaset-controller" }
		s.Manager.Loops = slices.DeleteFunc(s.Manager.Loops, isIts)
		own, err := process.Start(exec.Command(loop, "--kubeconfig", c.Kubeconfigs[cluster.Admin]))
		if err != nil {
			return nil, nil, errors.Join(err, c.Close())
		}
		closeAll = func() error { own.Kill(); return c.Close() }
	}
	_, stop, err := s.RunLoops()
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return s, func() error { return errors.Join(stop(), closeAll()) }, nil
}
