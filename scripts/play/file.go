package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/kcm-book/kcm-book/labs/play"
)

// playFile plays somebody's own script, with all loops of the finished kcm, or
// of the original.
func playFile(ctx context.Context, path string) (err error) {
	manifests := []string{filepath.Dir(path), filepath.Join("labs", "scenarios", "manifests")}
	script, err := play.ReadScript(path, manifests...)
	if err != nil {
		return err
	}
	narrator := play.NewTeller(os.Stdout, os.Getenv("STEP") != "")
	if os.Getenv("JSON") != "" {
		narrator = play.NewRecorder(os.Stdout, filepath.Base(path))
	}
	s, end, err := allLoops(ctx, narrator, os.Getenv("REFERENCE") == "1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	s.Manifests, s.Keep = manifests, os.Getenv("KEEP") != ""
	begin := time.Now()
	if err := s.Perform(ctx, script); err != nil {
		return err
	}
	narrator.Passed(time.Since(begin))
	return nil
}

// allLoops starts a cluster with a manager that runs all loops. What it has
// started ends with end.
func allLoops(ctx context.Context, narrator play.Narrator, reference bool) (s *play.Setting, end func() error, err error) {
	program, err := filepath.Abs(filepath.Join("bin", "kcm"))
	if err != nil {
		return nil, nil, err
	}
	c, err := startCluster(ctx, narrator)
	if err != nil {
		return nil, nil, err
	}
	s = &play.Setting{Cluster: c, Narrator: narrator}
	s.Manager, err = play.KCM(ctx, c, program)
	if err == nil && reference {
		s.Manager, err = play.Original(ctx, c, s.Manager.Loops)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	_, stop, err := s.RunLoops()
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return s, func() error { return errors.Join(stop(), c.Close()) }, nil
}
