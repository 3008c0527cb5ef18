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
demo: bin/play bin/labcluster bin/kcm ## see kcm at work: elect, roll out, fail over (VIEW=1, CLUSTER=kind: with real containers)
	@bin/play lab demo

.PHONY: view
view: bin/play bin/labcluster bin/kcm site ## watch the inside of the loops in your browser, and disturb them (PORT=8080, REFERENCE=1); `VIEW=1` does so with a lab or the demo
	@bin/play view

.PHONY: compare
compare: bin/play bin/labcluster bin/kcm ## play the scenarios with kcm and with the original, side by side (RUN=regexp, CLUSTER=kind)
	@bin/play compare '$(RUN)'

.PHONY: faults
faults: bin/play bin/labcluster bin/kcm ## play workloads with one fault each and look for what kcm then does wrong (ARGS="-for 20m", "-replay rollout/stop/3", "-both", "-h"; REFERENCE=1)
	@bin/play faults $(ARGS)

.PHONY: chaos
chaos: bin/play bin/labcluster bin/kcm ## play random operations with random faults and look for what kcm then does wrong (ARGS="-for 10m -seed 7", "-seed 7 -keep 3,9,12", "-h"; REFERENCE=1)
	@bin/play chaos $(ARGS)

.PHONY: odd
odd: bin/play bin/labcluster bin/kcm ## have kcm live with random odd objects of every kind and look for what it cannot bear (ARGS="-for 10m -seed 7", "-seed 7 -keep 3,9,12", "neighbours", "-h"; REFERENCE=1)
	@bin/play odd $(ARGS)

.PHONY: rights
rights: bin/play bin/labcluster bin/kcm ## play the scenarios with kcm and tell which of the rights of its role each loop has used (RUN=regexp)
	@bin/play rights '$(RUN)'

.PHONY: fuzz
fuzz: ## fuzz what the loops read of objects that others write (FUZZTIME=10m for each)
	@for package in $$(go list -f '{{if .TestGoFiles}}{{.ImportPath}}{{end}}' ./kcm/controller/...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			go test -run '^$$' -fuzz "^$$target$$" -fuzzminimizetime 1s -fuzztime '$(or $(FUZZTIME),1m)' $$package; \
		done; \
	done

.PHONY: play
play: bin/play bin/labcluster bin/kcm ## play a script of your own, or list the verbs (FILE=my.txtar, REFERENCE=1, KEEP=1, STEP=1, JSON=1, CLUSTER=kind)
	@bin/play file $(or $(FILE),--help)

# The original as it is released, a program of its own. Built with the lab cluster's flags, it says which release it is.
bin/kube-controller-manager: labs/controlplane/go.mod labs/controlplane/go.sum labs/cluster.mk
	@echo "building the original kube-controller-manager; about 5 minutes the first time, then seconds"
	@cd labs/controlplane && go build -buildvcs=false -tags '$(labcluster_tags)' -ldflags '$(labcluster_ldflags)' -o ../../$@ k8s.io/kubernetes/cmd/kube-controller-manager

.PHONY: bench
bench: bin/labcluster bin/kcm bin/kube-controller-manager ## measure kcm beside the original, about 35 minutes (ARGS="-rounds 5", or "-only 'create|namespace'")
	@go run ./scripts/bench $(ARGS)

# Upstream's own suites, in a module of their own. What is built for them is in build/upstream.
upstream_tool = cd labs/upstream && go build -o ../../build/upstream/bin/
upstream_flags = -run '$(RUN)' $(if $(REFERENCE),-with original) $(ARGS)

.PHONY: upstream
upstream: ## run upstream's integration suites with kcm's loops and with the original's, about 40 minutes (RUN=regexp, REFERENCE=1, ARGS="-with kcm")
	@$(upstream_tool) ./suites
	@build/upstream/bin/suites $(upstream_flags)

.PHONY: conformance
conformance: bin/labcluster bin/kcm ## run upstream's conformance specs about controllers with kcm and with the original, about 25 minutes (RUN=regexp, REFERENCE=1, CLUSTER=kind, ARGS="-with kcm")
	@echo "building upstream's end-to-end suite; about 5 minutes the first time, then half a minute"
	@$(upstream_tool) ./conformance github.com/onsi/ginkgo/v2/ginkgo
	@cd labs/upstream && go test -c -vet=off -ldflags='-s -w' -o ../../build/upstream/bin/e2e.test k8s.io/kubernetes/test/e2e
	@$(if $(on_kind),cd labs/upstream && CGO_ENABLED=0 go build -ldflags='-s -w' -o ../../build/upstream/bin/agnhost k8s.io/kubernetes/test/images/agnhost)
	@build/upstream/bin/conformance $(upstream_flags)

.PHONY: bin/book bin/play
bin/book bin/play:
	@go build -o $@ ./scripts/$(@F)

# The stages' kcm says which Kubernetes it is, as bin/kcm does.
stage-% stages lab-% labs image check-% build-% judge: export KCM_LDFLAGS = $(kcm_ldflags)

.PHONY: weave
weave: bin/book ## bring what the chapters show up to date: code, files, steps of labs
	@bin/book fill

.PHONY: weave-check
weave-check: bin/book ## check that chapters, code, links and diagrams agree (seconds)
	@bin/book check

.PHONY: site
site: bin/book ## write the book as web pages to build/site
	@bin/book site

.PHONY: pdf
pdf: bin/book ## the same, and the book as build/site/book.pdf, with numbers of pages in its references (needs Chromium; half a minute)
	@bin/book site --pdf

.PHONY: site-check
site-check: ## check the web pages and the live view: links, sizes, and in Chromium, if there is one, all that a reader does (about a minute)
	@cd scripts/book/site && BROWSER=1 go test -count=1 -timeout 60m
	@BROWSER=1 go test -count=1 -timeout 10m ./labs/view

.PHONY: screenshot
screenshot: site bin/play bin/labcluster bin/kcm ## take the pictures that README.md shows: of a chapter, and of the live view in a failover
	@scripts/screenshot

.PHONY: serve
serve: bin/book ## show the book as web pages, and reload them at each save (PORT=8000)
	@bin/book site --serve --port $(or $(PORT),8000)

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
lab_needs := bin/play bin/book bin/labcluster

lab-%: $(lab_needs) $(if $(VIEW),bin/kcm) ## play the lab of a chapter: make lab-06 (VIEW=1, KEEP=1, STEP=1, JSON=1, REFERENCE=1, CLUSTER=kind, PLACE=static-pod)
	@bin/play lab $*

# What the reader writes. DEST, ONLY, FROM, FORCE, YES and CLUSTER go to the tool through the environment.
export DEST ONLY FROM FORCE YES FORMAT NN

.PHONY: bin/exercise
bin/exercise:
	@go build -o $@ ./scripts/exercise

exercise-%: bin/exercise ## write the workspace of a chapter's exercises to exercises/NN; what you have changed stays (DEST=, FROM=, FORCE=1)
	@bin/exercise write $*

check-%: bin/exercise ## check what you have written, behaviour by behaviour (ONLY=name, DEST=, CLUSTER=embedded or kind)
	@$(if $(CLUSTER),$(MAKE) --no-print-directory bin/play bin/labcluster &&) bin/exercise check $*

build-%: bin/exercise ## build what you have written, to run it by hand (DEST=)
	@bin/exercise build $*

watch-%: bin/exercise ## check what you write at each save (ONLY=name, DEST=)
	@bin/exercise watch $*

hint-%: bin/exercise ## show one more hint for the first exercise that is open (ONLY=name, DEST=)
	@bin/exercise hint $*

solution-%: bin/exercise ## show the book's solution and how yours differs (ONLY=name, DEST=, YES=1)
	@bin/exercise solution $*

.PHONY: progress
progress: bin/exercise ## sum up all exercises
	@bin/exercise progress

.PHONY: grade
grade: bin/exercise ## grade a workspace, or each folder in a directory (DIR=, NN=06, FORMAT=json, junit, gradescope or classroom50)
	@$(if $(DIR),,echo 'say what is to be graded: make grade DIR=submissions'; exit 2;) bin/exercise grade '$(DIR)'

.PHONY: exercises-check
exercises-check: bin/exercise ## prove of all exercises that right solutions pass and wrong ones do not (ARGS="05 06")
	@bin/exercise prove $(ARGS)

.PHONY: judge
judge: bin/exercise bin/play bin/labcluster ## prove that the scenarios that a reader is to write reject the broken managers (ARGS="05 06")
	@bin/exercise judge $(ARGS)

.PHONY: labs
labs: $(lab_needs) bin/kcm ## play all labs and the demo side by side, and sum them up in a table (REFERENCE=1, CLUSTER=kind)
	@bin/play labs

.PHONY: transcripts
transcripts: bin/book bin/labcluster bin/play bin/kcm ## run what the chapters say to type and put in what it prints, and record what moves in them (ARGS="03 06")
	@bin/book transcripts fill $(ARGS)
	@bin/play recordings $(ARGS)

.PHONY: diagrams
diagrams: ## draw the diagrams again whose sources have changed
	@scripts/diagrams

.PHONY: test
test: bin/labcluster ## test what you have changed: lint, all tests with the race detector, all scenarios with kcm, the book's code
	@scripts/steps \
		"lint: $(MAKE) --no-print-directory lint" \
		"all tests with the race detector (the first time they compile for 8 minutes): go test -race ./... | counted $$(go list ./... | wc -l)" \
		"the lab cluster's own tests: cd labs/controlplane && go test -race ./internal/..." \
		"that upstream's suites are about kcm, without running them: cd labs/upstream && go test -short ./..." \
		"the comparison with the original in memory finds what is wrong: cd labs/differential && go test ./..." \
		"the book's code, links and diagrams: $(MAKE) --no-print-directory weave-check"

.PHONY: verify
verify: bin/labcluster bin/kcm bin/play bin/book ## check everything else, too: the original, all labs and the demo, all sessions, stages, exercises and web pages
	@scripts/steps \
		"the scenarios with kcm and with the original: $(MAKE) --no-print-directory compare" \
		"all labs and the demo: $(MAKE) --no-print-directory labs" \
		"all labs and the demo with the original: $(MAKE) --no-print-directory labs REFERENCE=1" \
		"what the chapters tell to type: $(MAKE) --no-print-directory transcripts-check" \
		-- \
		"every exercise with right solutions and with wrong ones: $(MAKE) --no-print-directory exercises-check" \
		"every broken manager is rejected by its scenario: $(MAKE) --no-print-directory judge" \
		"every chapter's stage, built, vetted and tested: $(MAKE) --no-print-directory stages" \
		"kcm and the original side by side in memory, the same random runs each time: $(MAKE) --no-print-directory differential ARGS='-seed 1 -runs 900'"
	@scripts/steps \
		"the book as web pages: $(MAKE) --no-print-directory site-check" \
		"a minute of workloads with one fault each: $(MAKE) --no-print-directory faults ARGS='-for 1m'" \
		"a minute of odd objects, always the same: $(MAKE) --no-print-directory odd ARGS='-for 1m -seed 1'"

.PHONY: differential
differential: ## compare kcm's loops with the original's in memory, run after random run, for a minute (ARGS="-for 20m -seed 7", or the steps that a failure prints)
	@cd labs/differential && GOGC=800 go test -count=1 -timeout 0 -run KcmAndTheOriginal -args -for 1m -seed $$(date +%s) $(ARGS)

.PHONY: lint
lint: modules ## check formatting, go vet and staticcheck in all modules
	@unformatted=$$(gofmt -l kcm labs scripts); if [ -n "$$unformatted" ]; then echo "gofmt -w is needed on:" $$unformatted; exit 1; fi
	@echo "linting; about 5 minutes the first time, then half a minute"
	@staticcheck=$$(go tool -n staticcheck) || exit 1; for module in . labs/controlplane labs/differential labs/upstream; do (cd $$module && go vet ./... && $$staticcheck ./...) || exit 1; done
	@GOOS=darwin go vet ./...

.PHONY: darwin
darwin: ## build and vet all modules for macOS (about 10 minutes the first time)
	@for module in . labs/controlplane labs/differential labs/upstream; do (cd $$module && GOOS=darwin go build -o /dev/null ./... && GOOS=darwin go vet ./...) || exit 1; done

# Path and version of each module that a package of this module is built from.
built_from := go list -deps -test -f '{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' ./... | sort -u

.PHONY: modules
modules: ## check that all modules use the same versions of what they share
	@set -o pipefail; ours=$$($(built_from)) || exit 1; for module in labs/controlplane labs/differential labs/upstream; do \
	theirs=$$(cd $$module && $(built_from)) || exit 1; \
	differ=$$(join <(echo "$$ours") <(echo "$$theirs") | awk '$$2 != $$3') || exit 1; \
	if [ -n "$$differ" ]; then echo "different versions in go.mod and $$module/go.mod, so these compile twice:"; echo "$$differ"; exit 1; fi; done
