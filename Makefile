# Every command of the project. `make help` lists those that people type.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

include labs/cluster.mk

# A variable that is misspelt is told: `make labs REFRENCE=1` would play kcm.
# Of the environment make cannot tell what is meant for it, so what the book says to set stands behind `make`.
variables := ALL ARGS AT CLUSTER DEST DIR FILE FORMAT FROM KCM KEEP LABCLUSTER_DIR LOOP NN NODES ONLY PORT REFERENCE \
	RAPID_SEED STAGE STEP VIEW YES
misspelt := $(filter-out $(variables) GOFLAGS,$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name))))
$(if $(misspelt),$(error $(misspelt) means nothing here; what can be set is $(variables)))

# What stands behind ## is what help says of it, under the heading behind the last ##@.
.PHONY: help
help:
	@awk '/^##@ / { group = substr($$0, 5); if (!(group in lines)) order[++n] = group } \
		/^[^#].* ## / { split($$0, of, " ## "); sub(/^.PHONY: /, "", of[1]); sub(/:.*/, "", of[1]); gsub("%", "NN", of[1]); \
			gsub(" ", ", ", of[1]); gsub(", prove", ", ", of[1]); lines[group] = lines[group] sprintf("  make %-28s %s\n", of[1], of[2]) } \
		END { for (i = 1; i <= n; i++) printf "%s\n%s", order[i], lines[order[i]] }' $(MAKEFILE_LIST)
	@echo 'CLUSTER=kind has them on kind instead of the embedded cluster, REFERENCE=1 plays the original, NN="03 06" some chapters'

# kcm says that it is the Kubernetes that it behaves like: the one in go.mod.
kcm_version := $(shell awk '$$1 == "k8s.io/client-go" { sub("^v0", "v1", $$2); print $$2 }' go.mod)
kcm_ldflags := $(foreach package,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(package).gitVersion=$(kcm_version)+kcm -X $(package).gitMajor=1 -X $(package).gitMinor=$(word 2,$(subst ., ,$(kcm_version))))

# The stages' kcm says which Kubernetes it is, as bin/kcm does.
stage-% prove-stages lab-% labs image check-% build-% prove-judges: export KCM_LDFLAGS = $(kcm_ldflags)

# A lab needs a cluster and the stage of its chapter, which it builds itself.
lab_needs := bin/play bin/book bin/labcluster $(if $(REFERENCE),$(original))

# The programs that do the work.
.PHONY: bin/book bin/exercise bin/play
bin/book bin/exercise:
	@go build -o $@ ./scripts/$(@F)

bin/play:
	@go build -o $@ ./scripts/player

##@ see it

.PHONY: demo
demo: bin/play bin/labcluster bin/kcm ## kcm elects, rolls out and fails over on a cluster of its own (VIEW=1: in a browser)
	@bin/play lab demo

.PHONY: view
view: bin/play bin/labcluster bin/kcm site ## watch the inside of the loops in your browser, and disturb them (PORT=8080)
	@VIEW=1 bin/play lab view

lab-%: $(lab_needs) $(if $(VIEW),bin/kcm) ## play the lab of a chapter: make lab-06 (VIEW=1, STEP=1, KEEP=1)
	@bin/play lab $*
	@$(if $(and $(on_kind),$(filter 17 17-%,$(if $(REFERENCE),,$*))),scripts/kubeadm-never-notices)

.PHONY: play
play: bin/play bin/labcluster bin/kcm ## play a script of your own (FILE=my.txtar STEP=1, KEEP=1), or list the verbs
	@bin/play file $(or $(FILE),--help)

##@ read it

.PHONY: serve
serve: bin/book ## show the book as web pages, and reload them at each save (PORT=8000)
	@bin/book site --serve --port $(or $(PORT),8000)

.PHONY: site pdf ## write them to build/site; pdf adds book.pdf (needs Chromium; half a minute)
site: bin/book
	@bin/book site

pdf: bin/book
	@scripts/chromium --version > /dev/null
	@bin/book site --pdf
	@scripts/chromium --no-pdf-header-footer --generate-pdf-document-outline \
		--print-to-pdf=build/site/book.pdf "file://$(CURDIR)/build/site/book.html"
	@test -s build/site/book.pdf # it ends well, too, where it has printed nothing

##@ write it

stage-%: bin/book ## write a chapter's code to build/stage-NN and build its kcm (AT=naive: up to a step)
	@bin/book stage $* $(if $(AT),--at $(AT))

# These go to the tool through the environment.
export ALL DEST ONLY FROM YES FORMAT NN

exercise-%: bin/exercise ## write a chapter's exercises to exercises/NN; your changes stay (DEST=, FROM=)
	@bin/exercise write $*

check-%: bin/exercise ## check what you have written, behaviour by behaviour (ONLY=, ALL=1; also: watch-NN)
	@$(if $(CLUSTER),$(MAKE) --no-print-directory bin/play bin/labcluster &&) bin/exercise check $*

# A save while a check runs ends it: it is about what is no longer there.
watch-%: bin/exercise
	@dir=$(or $(DEST),exercises/$*); [ -d "$$dir/.book" ] || exec bin/exercise check $*; \
	stamp=$$(mktemp); trap 'rm -f "$$stamp"' EXIT; \
	while printf '\033[2J\033[H%s: save a file to check again, Ctrl-C to end\n' "$$(date +%T)"; do \
		bin/exercise check $* & \
		until [ -n "$$(find "$$dir" -newer "$$stamp" '(' -name '*.go' -o -name '*.txtar' ')')" ]; do sleep .2; done; \
		touch "$$stamp"; kill $$! 2>/dev/null || true; wait; \
	done

hint-%: bin/exercise ## show one more hint for the first open exercise (ONLY=name, DEST=; also: progress)
	@bin/exercise hint $*

solution-%: bin/exercise ## show the book's solution and how yours differs (ONLY=, YES=1: before you passed)
	@bin/exercise solution $*

build-%: bin/exercise ## build what you have written, to run it by hand (DEST=)
	@bin/exercise build $*

.PHONY: progress
progress: bin/exercise
	@bin/exercise progress

##@ teach

.PHONY: grade
grade: bin/exercise ## grade a workspace, or each in a directory (DIR=, FORMAT=json, junit, gradescope …)
	@$(if $(DIR),,echo 'say what is to be graded: make grade DIR=submissions'; exit 2;) bin/exercise grade '$(DIR)'

##@ change it

.PHONY: bin/kcm
bin/kcm: ## build kcm (2 minutes the first time, then seconds; also: image, for containers)
	@[ -x bin/kcm ] || echo "building bin/kcm; about 2 minutes"
	@go build -ldflags '$(kcm_ldflags)' -o bin/kcm ./kcm/cmd/kcm

.PHONY: image
image: bin/kindcluster
	@mkdir -p build && bin/kindcluster image build/kcm-image.tar

.PHONY: weave
weave: bin/book ## fill code, files and lab steps into the chapters (also: weave-check, diagrams)
	@bin/book fill

.PHONY: transcripts
transcripts: bin/book bin/labcluster bin/play bin/kcm ## run what chapters say to type, put in what it prints, record what moves in them
	@bin/book transcripts fill $(NN)
	@bin/play recordings $(NN)

.PHONY: diagrams
diagrams:
	@scripts/diagrams

.PHONY: screenshot
screenshot: site
	@scripts/screenshot

.PHONY: lint
lint: modules ## check formatting, vet, staticcheck (also: lint-labs for their modules, darwin)
	@unformatted=$$(gofmt -l kcm labs scripts); if [ -n "$$unformatted" ]; then echo "gofmt -w is needed on:" $$unformatted; exit 1; fi
	@echo "linting; about 4 minutes the first time, then half a minute"
	@go vet ./... && go tool staticcheck ./...

.PHONY: lint-labs
lint-labs:
	@staticcheck=$$(go tool -n staticcheck) || exit 1; for module in labs/controlplane labs/upstream; do (cd $$module && go vet ./... && $$staticcheck ./...) || exit 1; done

.PHONY: darwin
darwin:
	@for module in . labs/controlplane labs/upstream; do (cd $$module && GOOS=darwin go build -o /dev/null ./... && GOOS=darwin go vet ./...) || exit 1; done

# Path and version of each module that a package of this module is built from.
built_from := go list -deps -test -f '{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}' ./... | sort -u

# Modules that use different versions of what they share compile it twice.
.PHONY: modules
modules:
	@set -o pipefail; ours=$$($(built_from)) || exit 1; for module in labs/controlplane labs/upstream; do \
	theirs=$$(cd $$module && $(built_from)) || exit 1; \
	differ=$$(join <(echo "$$ours") <(echo "$$theirs") | awk '$$2 != $$3') || exit 1; \
	if [ -n "$$differ" ]; then echo "different versions in go.mod and $$module/go.mod, so these compile twice:"; echo "$$differ"; exit 1; fi; done

# Models draw what they try from this number. It is always the same here, so that a test says the same each time: what a
# change has broken, and nothing else. `make prove` tries another one each time.
export RAPID_SEED ?= 1
export RAPID_NOFAILFILE ?= true

.PHONY: test
test: ## test what you have changed, as CI does; a failure says how to play it alone
	@scripts/steps lint test-kcm test-tools weave-check test-stages test-exercises test-scenarios demo


# With -short nothing starts an API server.
.PHONY: test-kcm
test-kcm:
	@go test -race -short -vet=off -timeout 30m ./kcm/...

.PHONY: test-tools
test-tools:
	@go test -short -vet=off -timeout 30m ./labs/... ./scripts/...
	@cd labs/controlplane && go test -vet=off ./internal/...

.PHONY: test-stages
test-stages: bin/book
	@bin/book stages

.PHONY: test-exercises
test-exercises: bin/exercise
	@bin/exercise prove

# The scenarios whose verdict does not depend on how long something takes.
.PHONY: test-scenarios
test-scenarios: bin/labcluster
	@go test -vet=off -run '^TestScenarios$$' -timeout 30m ./labs/scenarios

##@ prove it

# What CI does not play, because it depends on the clock, needs the original, containers or a browser, or takes long.
proofs := prove-modules prove-cluster prove-race prove-compare prove-labs prove-labs-original prove-sessions prove-judges \
	prove-site prove-stages prove-exercises prove-faults prove-odd prove-memory prove-fuzz prove-upstream prove-conformance prove-kind

.PHONY: prove
prove: ## prove all else, in some hours; a table sums up (ONLY='cluster|labs.*', RAPID_SEED=7)
	@export RAPID_SEED=$(if $(filter command environment,$(origin RAPID_SEED)),$(RAPID_SEED),$$RANDOM); \
	echo "the seed is $$RAPID_SEED; make prove RAPID_SEED=$$RAPID_SEED draws the same"; \
	scripts/steps -k $(proofs)

.PHONY: prove-modules
prove-modules: lint-labs darwin
	@cd labs/upstream && go test -short ./...

.PHONY: prove-cluster prove-race ## run the tests that need an API server, all scenarios too; then with -race
prove-cluster: bin/labcluster $(original)
	@go test -count=1 -p 1 -timeout 120m ./kcm/app ./kcm/controller/serviceaccount ./labs/...

prove-race: bin/labcluster $(original)
	@go test -race -count=1 -p 1 -timeout 120m ./kcm/app ./kcm/controller/serviceaccount ./labs/...
	@cd labs/controlplane && go test -race -count=1 ./internal/...

.PHONY: prove-compare prove-labs prove-labs-original
prove-compare:
	@$(MAKE) --no-print-directory compare REFERENCE=1

prove-labs:
	@$(MAKE) --no-print-directory labs

prove-labs-original:
	@$(MAKE) --no-print-directory labs REFERENCE=1

.PHONY: prove-kind
prove-kind:
	@scripts/kind-smoke

.PHONY: compare
compare: bin/play bin/labcluster bin/kcm $(original) ## play the scenarios with kcm and with the original, side by side (ONLY=regexp)
	@bin/play compare '$(ONLY)'

.PHONY: labs
labs: $(lab_needs) bin/kcm ## play all labs and the demo side by side, and sum them up in a table
	@bin/play labs

.PHONY: weave-check
weave-check: bin/book
	@bin/book check

# In Chromium, if there is one, the tests do all that a reader does.
.PHONY: prove-site
prove-site: ## check the web pages and the live view
	@cd scripts/book/site && BROWSER=1 go test -count=1 -timeout 60m
	@BROWSER=1 go test -count=1 -timeout 10m ./labs/view

.PHONY: prove-sessions prove-stages ## run what chapters say to type, compare what it prints; test the code of each
prove-sessions: bin/book bin/labcluster bin/kcm bin/play
	@bin/book transcripts check $(NN)

prove-stages: bin/book
	@bin/book stages --all

.PHONY: prove-exercises prove-judges ## see that right solutions pass and wrong ones do not; scenarios of readers, too
prove-exercises: bin/exercise
	@for seed in 1 2 3; do RAPID_SEED=$$seed bin/exercise prove $(NN); done

prove-judges: bin/exercise bin/play bin/labcluster $(original)
	@bin/exercise judge $(NN)

.PHONY: prove-faults prove-odd ## play workloads with one fault each; odd objects of every kind with some (ARGS=-h)
prove-faults: bin/play bin/labcluster bin/kcm
	@bin/play faults $(ARGS)

prove-odd: bin/play bin/labcluster bin/kcm
	@bin/play odd -seed $(RAPID_SEED) $(ARGS)

.PHONY: prove-memory
prove-memory: ## hold what loops write against the original's API server (ARGS="-runs 5000")
	@cd labs/upstream && go test -count=1 ./charges ./certificates
	@cd labs/upstream && GOGC=800 go test -count=1 -timeout 0 -run TheAPIServerRefuses ./validation -args -runs 1000 -seed $(RAPID_SEED) $(ARGS)

.PHONY: prove-fuzz ## fuzz what loops read of others' objects (ARGS="-fuzztime 100000x")
prove-fuzz:
	@for package in $$(go list -f '{{if .TestGoFiles}}{{.ImportPath}}{{end}}' ./kcm/controller/...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			go test -run '^$$' -fuzz "^$$target$$" -fuzzminimizetime 1s $(or $(ARGS),-fuzztime 20000x) $$package; \
		done; \
	done
	@cd labs/upstream && go test -run '^$$' -fuzz . -fuzzminimizetime 1s $(or $(ARGS),-fuzztime 20000x) ./certificates

# Upstream's own suites, in a module of their own. What is built for them is in build/upstream.
upstream_tool = cd labs/upstream && go build -o ../../build/upstream/bin/
upstream_flags = -run '$(ONLY)' $(if $(REFERENCE),-with original) $(ARGS)

.PHONY: prove-upstream prove-conformance ## run upstream's suites (40 minutes) and conformance specs (25; ONLY=regexp)
prove-upstream:
	@$(upstream_tool) .
	@build/upstream/bin/upstream $(upstream_flags) suites

prove-conformance: bin/labcluster bin/kcm $(original)
	@echo "building upstream's end-to-end suite; about 5 minutes the first time, then half a minute"
	@$(upstream_tool) . github.com/onsi/ginkgo/v2/ginkgo
	@cd labs/upstream && go test -c -vet=off -ldflags='-s -w' -o ../../build/upstream/bin/e2e.test k8s.io/kubernetes/test/e2e
	@build/upstream/bin/upstream $(upstream_flags) conformance

.PHONY: bench
bench: bin/labcluster bin/kcm $(original) ## measure kcm beside the original, an hour (ARGS="-rounds 5", or "-only load")
	@go run ./scripts/bench $(ARGS)
