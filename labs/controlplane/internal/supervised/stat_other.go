//go:build !linux

package supervised

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts a component into a process group of its own, so that Ctrl-C reaches only the supervisor. There is
// no way to have the kernel kill it with the supervisor; labcluster down finds what is left.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// stat returns whether the process is frozen, and its resident memory in bytes.
func stat(pid int) (frozen bool, memory int64) {
	output, err := exec.Command("ps", "-o", "state=,rss=", "-p", strconv.Itoa(pid)).Output()
	fields := strings.Fields(string(output))
	if err != nil || len(fields) < 2 {
		return false, 0
	}
	kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
	return strings.HasPrefix(fields[0], "T"), kilobytes << 10
}

// CommandLine returns the arguments of a process, nil if there is none.
func CommandLine(pid int) []string {
	output, err := exec.Command("ps", "-o", "command=", "-ww", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(output))
}

// Redirect makes descriptor fd refer to the file.
func Redirect(file *os.File, fd int) error {
	return unix.Dup2(int(file.Fd()), fd)
}
