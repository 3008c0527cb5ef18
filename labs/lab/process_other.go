//go:build !linux

package lab

import "syscall"

// endingWithUs keeps Ctrl-C from a process: the lab ends what it has started.
func endingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
