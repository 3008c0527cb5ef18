//go:build !linux

package play

import "syscall"

// endingWithUs keeps Ctrl-C from a process: whoever started it ends it.
func endingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
