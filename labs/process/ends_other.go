//go:build !linux

package process

import "syscall"

// EndingWithUs keeps Ctrl-C from a process: whoever started it ends it.
func EndingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
