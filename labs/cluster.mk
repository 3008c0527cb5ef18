# The embedded lab cluster. Included by the Makefile; `make -f labs/cluster.mk` works too, from the root of the repository.

LABCLUSTER_DIR ?= .labcluster
NODES ?= 3

labcluster_sources := $(filter-out %_test.go,$(wildcard labs/controlplane/*.go labs/controlplane/internal/*/*.go)) \
	$(wildcard labs/controlplane/stages/*) labs/controlplane/go.mod labs/controlplane/go.sum

# The version of Kubernetes is that of the module, and the server says so.
kubernetes_version := $(shell sed -n 's,^	k8s.io/kubernetes \(v[0-9.]*\)$$,\1,p' labs/controlplane/go.mod)
kubernetes_major := $(subst v,,$(firstword $(subst ., ,$(kubernetes_version))))
kubernetes_minor := $(word 2,$(subst ., ,$(kubernetes_version)))
labcluster_ldflags := -s -w $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(package).gitVersion=$(kubernetes_version) -X $(package).gitMajor=$(kubernetes_major) \
	-X $(package).gitMinor=$(kubernetes_minor) -X $(package).gitCommit=$(kubernetes_version) \
	-X $(package).gitTreeState=clean -X $(package).buildDate=1970-01-01T00:00:00Z)

# Without kustomize's Go plugins the linker may leave out what nobody calls, a quarter of the binary.
labcluster_tags := kustomize_disable_go_plugin_support

bin/labcluster: $(labcluster_sources) ## build the lab cluster's binary (about 5 minutes the first time, then seconds)
	@echo "building bin/labcluster: etcd, Kubernetes $(kubernetes_version), kwok and kubectl in one binary;"
	@echo "this takes about 5 minutes on 2 cores the first time, and less than half a minute afterwards"
	@mkdir -p bin
	@touch bin/.labcluster.begin
	@cd labs/controlplane && go build -buildvcs=false -tags '$(labcluster_tags)' -ldflags '$(labcluster_ldflags)' -o ../../bin/labcluster.new .
	@# A source that was changed during the build is newer than the binary.
	@touch -r bin/.labcluster.begin bin/labcluster.new && rm bin/.labcluster.begin && mv bin/labcluster.new bin/labcluster

.PHONY: cluster
cluster: bin/labcluster ## start a lab cluster and leave it running (NODES=3)
	@bin/labcluster up --dir $(LABCLUSTER_DIR) --nodes $(NODES)

.PHONY: cluster-down
cluster-down: bin/labcluster ## end the lab cluster and remove its files
	@bin/labcluster down --dir $(LABCLUSTER_DIR)

.PHONY: cluster-status
cluster-status: bin/labcluster ## show the processes of the lab cluster
	@bin/labcluster status --dir $(LABCLUSTER_DIR)

.PHONY: kubectl
kubectl: bin/labcluster ## run kubectl on the lab cluster: make kubectl ARGS="get pods -A"
	@bin/labcluster kubectl --dir $(LABCLUSTER_DIR) $(ARGS)
