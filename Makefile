# Every command of the project. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

include labs/cluster.mk

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z\/%-]+:.*## / { gsub("%", "NN", $$1); printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST) | sort

# kcm says that it is the Kubernetes that it behaves like: the one in go.mod.
kcm_version := $(shell awk '$$1 == "k8s.io/client-go" { sub("^v0", "v1", $$2); print $$2 }' go.mod)
kcm_ldflags := $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(package).gitVersion=$(kcm_version)+kcm -X $(package).gitMajor=1 -X $(package).gitMinor=$(word 2,$(subst ., ,$(kcm_version))))

.PHONY: bin/kcm
bin/kcm: ## build kcm (about 2 minutes the first time, then seconds)
	@[ -x bin/kcm ] || echo "building bin/kcm; about 2 minutes"
	@go build -ldflags '$(kcm_ldflags)' -o bin/kcm ./kcm/cmd/kcm

.PHONY: demo
demo: $(if $(on_kind),,bin/labcluster) bin/kcm ## see kcm at work: elect, roll out, fail over (CLUSTER=kind: with real containers)
	@go run ./scripts/demo

.PHONY: compare
compare: bin/labcluster ## run the scenarios with kcm and with the original, side by side (RUN=regexp, CLUSTER=kind)
	@go run ./scripts/compare $(if $(RUN),-run '$(RUN)')

# The original as it is released, a program of its own. Built with the lab cluster's flags, it says which release it is.
bin/kube-controller-manager: labs/controlplane/go.mod labs/controlplane/go.sum labs/cluster.mk
	@echo "building the original kube-controller-manager; about 5 minutes the first time, then seconds"
	@cd labs/controlplane && go build -buildvcs=false -tags '$(labcluster_tags)' -ldflags '$(labcluster_ldflags)' -o ../../$@ k8s.io/kubernetes/cmd/kube-controller-manager

.PHONY: bench
bench: bin/labcluster bin/kcm bin/kube-controller-manager ## measure kcm beside the original, about 15 minutes (ARGS="-rounds 5")
	@go run ./scripts/bench $(ARGS)

.PHONY: bin/book bin/labs
bin/book bin/labs:
	@go build -o $@ ./scripts/$(@F)

# The stages' kcm says which Kubernetes it is, as bin/kcm does.
stage-% stages lab-% labs image: export KCM_LDFLAGS = $(kcm_ldflags)

.PHONY: weave
weave: bin/book ## bring the code in the chapters up to date with kcm/
	@bin/book fill

.PHONY: weave-check
weave-check: bin/book ## check that chapters, code, links and diagrams agree (seconds)
	@bin/book check

.PHONY: transcripts-check
transcripts-check: bin/book bin/labcluster ## run what the chapters say to type and check what it prints (ARGS="03 06")
	@bin/book transcripts check $(ARGS)

.PHONY: stages
stages: bin/book ## write, compile, vet and test the code of every chapter
	@bin/book stages

stage-%: bin/book ## write the code of a chapter to build/stage-NN and build its kcm: make stage-03
	@bin/book stage $*

.PHONY: image
image: bin/kindcluster ## make kcm's image, FROM scratch, in build/kcm-image.tar
	@mkdir -p build && bin/kindcluster image build/kcm-image.tar

# A lab needs a cluster and the stage of its chapter, which it builds itself.
lab_needs := bin/labs bin/book bin/labcluster

lab-%: $(lab_needs) ## run the lab of a chapter: make lab-06 (KEEP=1, STEP=1, JSON=1, REFERENCE=1, CLUSTER=kind, PLACE=static-pod)
	@bin/labs $(if $(JSON),-json) $*

.PHONY: labs
labs: $(lab_needs) ## run all labs and sum them up in a table
	@bin/labs $(if $(JSON),-json)

.PHONY: transcripts
transcripts: bin/book bin/labcluster ## run what the chapters say to type and put in what it prints (ARGS="03 06")
	@bin/book transcripts fill $(ARGS)

.PHONY: diagrams
diagrams: ## draw the diagrams again whose sources have changed
	@scripts/diagrams

.PHONY: test
test: bin/labcluster lint ## run everything: lint, all tests with the race detector, the scenarios with the original, the demo
	@echo "testing all packages with the race detector; about 8 minutes the first time, then about 4"
	@go test -race $$(go list ./... | grep -v /labs/0)
	@# The rest of this module is Kubernetes, which would be compiled once more; labs/cluster tests it from outside.
	@cd labs/controlplane && go test -race ./internal/...
	@echo "running the scenarios with the original kube-controller-manager: they must hold there, too"
	@REFERENCE=1 go test ./labs/scenarios
	@echo "playing the labs, one after the other, with kcm and then with the original"
	@go test -p 1 ./labs/0*
	@REFERENCE=1 go test -p 1 ./labs/0*
	@echo "the book: its code, its stages, and what it tells its readers to type"
	@$(MAKE) --no-print-directory weave-check stages transcripts-check
	@$(MAKE) --no-print-directory demo

.PHONY: lint
lint: modules ## check formatting, go vet and staticcheck in all modules
	@unformatted=$$(gofmt -l kcm labs scripts); if [ -n "$$unformatted" ]; then echo "gofmt -w is needed on:" $$unformatted; exit 1; fi
	@echo "linting; about 5 minutes the first time, then half a minute"
	@staticcheck=$$(go tool -n staticcheck) || exit 1; for module in . labs/controlplane; do (cd $$module && go vet ./... && $$staticcheck ./...) || exit 1; done
	@GOOS=darwin go vet ./...

.PHONY: darwin
darwin: ## build and vet all modules for macOS (about 10 minutes the first time)
	@for module in . labs/controlplane; do (cd $$module && GOOS=darwin go build -o /dev/null ./... && GOOS=darwin go vet ./...) || exit 1; done

# Path and version of each module that a package of this module is built from.
built_from := go list -deps -test -f '{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' ./... | sort -u

.PHONY: modules
modules: ## check that all modules use the same versions of what they share
	@set -o pipefail; ours=$$($(built_from)) || exit 1; theirs=$$(cd labs/controlplane && $(built_from)) || exit 1; \
	differ=$$(join <(echo "$$ours") <(echo "$$theirs") | awk '$$2 != $$3') || exit 1; \
	if [ -n "$$differ" ]; then echo "different versions in go.mod and labs/controlplane/go.mod, so these compile twice:"; echo "$$differ"; exit 1; fi
