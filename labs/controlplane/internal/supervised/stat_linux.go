package supervised

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts a component into a process group of its own, so that Ctrl-C reaches only the supervisor, and lets
// the kernel kill it when the supervisor dies, in whatever way.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stat returns whether the process is frozen, and its memory in bytes. A page that several processes share, as
// those of the one binary that they all run, is divided among them (PSS), so that a sum counts it once.
func stat(pid int) (frozen bool, memory int64) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false, 0
	}
	// The name, in parentheses, may contain anything; the fields after it do not.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	return len(fields) > 0 && fields[0] == "T", proportionalSetSize(pid)
}

func proportionalSetSize(pid int) int64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
			kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// CommandLine returns the arguments of a process, nil if there is none.
func CommandLine(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(content) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00")
}

// Redirect makes descriptor fd refer to the file.
func Redirect(file *os.File, fd int) error {
	return unix.Dup3(int(file.Fd()), fd, 0)
}
