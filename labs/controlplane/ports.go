package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are picked below the range from which Linux and macOS take the ports of outgoing connections, so that none of
// those takes one between the moment it is picked and the moment the component binds it.
const minPort, maxPort = 20_000, 32_000

// pickPorts picks free ports on the loopback interface.
func pickPorts() (ports, error) {
	var p ports
	picked := map[int]bool{}
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiserver, &p.scheduler} {
		free, err := pickPort(picked)
		if err != nil {
			return ports{}, err
		}
		picked[free], *port = true, free
	}
	return p, nil
}

func pickPort(taken map[int]bool) (int, error) {
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
