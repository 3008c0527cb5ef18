# The lab cluster. Included by the Makefile; `make -f labs/cluster.mk` works too, from the root of the repository.

# With CLUSTER=kind the cluster is a kind cluster, otherwise the embedded one.
$(if $(filter-out embedded kind,$(CLUSTER)),$(error CLUSTER is "$(CLUSTER)": set it to embedded or kind, or to nothing, which means embedded))
on_kind := $(filter kind,$(CLUSTER))

LABCLUSTER_DIR ?= $(if $(on_kind),.labcluster-kind,.labcluster)
NODES ?= 3

labcluster_sources := $(filter-out %_test.go,$(wildcard labs/controlplane/*.go labs/controlplane/internal/*/*.go)) \
	$(wildcard labs/controlplane/kwok/* labs/controlplane/*.yaml) labs/controlplane/go.mod labs/controlplane/go.sum

# The version of Kubernetes is that of the module, and the server says so.
kubernetes_version := $(shell sed -n 's,^	k8s.io/kubernetes \(v[0-9.]*\)$$,\1,p' labs/controlplane/go.mod)
kubernetes_major := $(subst v,,$(firstword $(subst ., ,$(kubernetes_version))))
kubernetes_minor := $(word 2,$(subst ., ,$(kubernetes_version)))
labcluster_ldflags := -s -w $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(package).gitVersion=$(kubernetes_version) -X $(package).gitMajor=$(kubernetes_major) \
	-X $(package).gitMinor=$(kubernetes_minor) -X $(package).gitCommit=$(kubernetes_version) \
	-X $(package).gitTreeState=clean -X $(package).buildDate=1970-01-01T00:00:00Z)

# These let the linker leave out what nobody calls: a quarter of bin/labcluster without kustomize's Go plugins, a third of
# bin/kcm without grpc's traces. Kubernetes' releases are built with grpcnotrace, too. With -trimpath another clone of this
# repository finds compiled what it has in common with this one. What only debuggers read (DWARF) costs an eighth of the
# time to compile: debug what `go build` makes by itself. All this is for all that make builds, so that nothing compiles
# twice.
labcluster_tags := kustomize_disable_go_plugin_support,grpcnotrace
export GOFLAGS := $(GOFLAGS) -tags=grpcnotrace -trimpath -gcflags=all=-dwarf=false

# Compilers, linkers and staticcheck are quicker if they collect less garbage.
lint test-kcm test-tools test-stages test-exercises bin/book bin/play bin/exercise bin/kcm bin/labcluster bin/kube-controller-manager: export GOGC = 400

bin/labcluster: $(labcluster_sources) labs/cluster.mk
	@echo "building bin/labcluster: etcd, Kubernetes $(kubernetes_version), kwok and kubectl in one binary;"
	@echo "this takes about 5 minutes on 2 cores the first time, and less than half a minute afterwards"
	@# Two that build at the same time do not disturb each other. A source that was changed during the build is newer than
	@# the binary.
	@mkdir -p bin && begin=$$(mktemp) && new=$$(mktemp -d -p bin) && trap "rm -rf $$begin $$new" EXIT && \
	(cd labs/controlplane && go build -buildvcs=false -tags '$(labcluster_tags)' -ldflags '$(labcluster_ldflags)' -o "../../$$new/labcluster" .) && \
	touch -r $$begin $$new/labcluster && mv $$new/labcluster bin/labcluster

# The original as it is released, a program of its own: a cluster does without it until somebody asks for it. Built with
# the lab cluster's flags, it says which release it is.
original := bin/kube-controller-manager
$(original): labs/controlplane/go.mod labs/controlplane/go.sum labs/cluster.mk
	@echo "building the original kube-controller-manager; about 2 minutes the first time, then seconds"
	@cd labs/controlplane && go build -buildvcs=false -tags '$(labcluster_tags)' -ldflags '$(labcluster_ldflags)' -o ../../$@ k8s.io/kubernetes/cmd/$(@F)

.PHONY: bin/kindcluster
bin/kindcluster:
	@go build -buildvcs=false -o bin/kindcluster ./labs/cluster/kind

# What kubectl discovers of a cluster is not for another one that has the same port later.
admin_kubeconfig := $(LABCLUSTER_DIR)/kubeconfig/admin.kubeconfig
lab_kubectl = @[ -e $(admin_kubeconfig) ] || \
	{ echo "no cluster runs: start one with 'make cluster$(if $(on_kind), CLUSTER=kind)'"; exit 1; }; \
	KUBECACHEDIR=$(LABCLUSTER_DIR)/kubectl-cache bin/labcluster kubectl --kubeconfig $(admin_kubeconfig)

kind_status := nodes,pods --namespace=kube-system

lab_program := $(if $(on_kind),bin/kindcluster,bin/labcluster)

##@ see it

.PHONY: cluster
cluster: $(lab_program) ## start a lab cluster and leave it (NODES=3; also: cluster-status, cluster-down)
	@$(lab_program) up --dir $(LABCLUSTER_DIR) --nodes $(NODES)

.PHONY: cluster-down
cluster-down: $(lab_program)
	@$(lab_program) down --dir $(LABCLUSTER_DIR)

.PHONY: cluster-status
cluster-status: bin/labcluster
	$(if $(on_kind),$(lab_kubectl) get $(kind_status),@bin/labcluster status --dir $(LABCLUSTER_DIR))

.PHONY: kubectl
kubectl: bin/labcluster ## run kubectl there: make kubectl ARGS="get pods -A", which a shell reads once more
	$(lab_kubectl) $(ARGS)

# Nothing else may be printed here: the shell runs it.
.PHONY: env
env: ## ready a shell for it: eval "$(make env)" (STAGE=03: with that kcm, DEST=: yours)
	@echo 'export KUBECONFIG="$(CURDIR)/$(admin_kubeconfig)"'
	@echo 'export LAB="$(CURDIR)/$(LABCLUSTER_DIR)"'
	@echo 'export PATH="$(if $(DEST),$(abspath $(DEST))/bin:)$(if $(STAGE),$(CURDIR)/build/stage-$(STAGE)/bin:)$(CURDIR)/scripts/shell:$(CURDIR)/bin:$$PATH"'
