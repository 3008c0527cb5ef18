// Package ports finds ports for the components of a lab cluster.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// Ports are picked below the range from which Linux and macOS take the ports of outgoing connections, so that none of
// those takes one between the moment it is picked and the moment the component binds it.
const minPort, maxPort = 20_000, 32_000

// Pick returns n different ports that are free on the loopback interface.
func Pick(n int) ([]int, error) {
	var picked []int
	taken := map[int]bool{}
	for range n {
		port, err := pick(taken)
		if err != nil {
			return nil, err
		}
		picked, taken[port] = append(picked, port), true
	}
	return picked, nil
}

func pick(taken map[int]bool) (int, error) {
	for range 200 {
		port := minPort + rand.IntN(maxPort-minPort)
		if taken[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		listener.Close()
		return port, nil
	}
	return 0, errors.New("no free port on 127.0.0.1: end other programs that listen there")
}

// Taken says whether a component has ended because somebody else took its port after it was picked. A component says so
// only in its log, whose last lines are part of the error.
func Taken(err error) bool {
	return err != nil && strings.Contains(err.Error(), "address already in use")
}
