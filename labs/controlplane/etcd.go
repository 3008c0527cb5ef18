package main

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// How much etcd may store. A lab cluster that is used for days stays below it by far.
const etcdQuotaBytes = 2 << 30

// runEtcd runs a single etcd member until SIGTERM or SIGINT.
func runEtcd() {
	config, err := etcdConfig(os.Args[1:])
	if err == nil {
		err = serveEtcd(config)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "etcd: %v\n", err)
		os.Exit(1)
	}
}

func etcdConfig(args []string) (*embed.Config, error) {
	flags := pflag.NewFlagSet("etcd", pflag.ExitOnError)
	data := flags.String("data-dir", "", "directory of the data")
	client := flags.String("listen-client-url", "", "URL to serve clients on")
	peer := flags.String("listen-peer-url", "", "URL to serve peers on")
	ca := flags.String("trusted-ca-file", "", "CA that clients' certificates must be signed by")
	cert := flags.String("cert-file", "", "serving certificate")
	key := flags.String("key-file", "", "key of the serving certificate")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	clientURL, err := url.Parse(*client)
	if err != nil {
		return nil, fmt.Errorf("--listen-client-url: %w", err)
	}
	peerURL, err := url.Parse(*peer)
	if err != nil {
		return nil, fmt.Errorf("--listen-peer-url: %w", err)
	}

	config := embed.NewConfig()
	config.Name = "lab"
	config.Dir = *data
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	tls := transport.TLSInfo{TrustedCAFile: *ca, CertFile: *cert, KeyFile: *key, ClientCertAuth: true}
	config.ClientTLSInfo, config.PeerTLSInfo = tls, tls
	config.LogLevel = "warn"
	// A lab cluster need not survive a power cut, and a sync costs milliseconds for each write.
	config.UnsafeNoFsync = true
	config.QuotaBackendBytes = etcdQuotaBytes
	config.AutoCompactionMode, config.AutoCompactionRetention = "periodic", "5m"
	// A member alone has no election to win and nobody to wait for.
	config.TickMs, config.ElectionMs = 10, 100
	config.SnapshotCount = 10_000
	return config, nil
}

func serveEtcd(config *embed.Config) error {
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-server.Err():
		return err
	case <-signals:
		return nil
	}
}
