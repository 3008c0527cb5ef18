package process

import "syscall"

// EndingWithUs has the kernel end a process when we have ended, in whatever way, and keeps Ctrl-C from it: whoever
// started it ends it.
func EndingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
