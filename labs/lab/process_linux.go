package lab

import "syscall"

// endingWithUs has the kernel end a process when the lab has ended, in whatever
// way, and keeps Ctrl-C from it: the lab ends what it has started.
func endingWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
