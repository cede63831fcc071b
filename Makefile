# Lull. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# One setting for builds, tests and lint, so that they share one build cache: a
# second one would compile Kubernetes twice.
export CGO_ENABLED := 0
FUZZTIME ?= 30s
KUBE_VERSION := v1.36.3
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The Kubernetes components refuse to work together when their version is the
# placeholder of an unstamped build.
LAB_LDFLAGS := -s -w \
	-X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36

# A prerequisite of what go build makes: it decides by the content of all it reads whether to link again. Times of files
# cannot: a checkout of an older commit, or a deleted file, leaves a binary newer than its sources.
.PHONY: always
always:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/lull bin/lab ## build both binaries into bin/

bin/lull: always
	$(GO) build -ldflags '-s -w -X lull.dev/lull/internal/base/version.Version=$(VERSION)' -o $@ ./cmd/lull

bin/lab: always
	@[ -e $@ ] || echo "Building the lab (a Kubernetes control plane); the first time this takes minutes."
	cd lab && $(GO) build -ldflags '$(LAB_LDFLAGS)' -o ../$@ ./cmd/lab

.PHONY: demo
demo: build $(if $(filter multicluster follow,$(DEMO)),kueue) $(if $(filter slurm slurm-week,$(DEMO)),bin/slurm/version) ## see Lull work on a real control plane; docs/tour.md says what DEMO and LULL_TRACE may be
	./bin/lull demo $(DEMO)

# The lab of the integration tests: three of them in make test, as the simulation (test/controlloop) covers the control loop.
INTEGRATION = LULL_LAB=$(CURDIR)/bin/lab LULL_BIN=$(CURDIR)/bin/lull $(GO) test -tags integration -count=1 -timeout 60m ./test/integration
SMOKE := ^(TestJobsWaitForCleanPower|TestWatchdogAloneReleasesEachHoldInTime|TestControllerKilled)$$

.PHONY: test
test: deps build ## unit, property and fuzz-seed tests, the simulated control loop, three tests on a real control plane
	$(GO) test ./...
	$(GO) test -count=1 ./test # it reads the packages by go list, which the cache of tests does not see
	cd tools/release && $(GO) test ./...
	$(INTEGRATION) -run '$(SMOKE)'

SUITES := verify test test-lab test-seeds test-race test-timed test-integration test-kubernetes test-operators test-browser test-fleet test-realnode test-slurm test-demos test-upgrade

# One after another, as each needs both cores. A suite that fails does not keep the others from running.
.PHONY: test-all
test-all: ## every suite, make verify and make test too, with a table at the end (hours; needs root)
	./tools/suites.sh $(SUITES)

.PHONY: test-lab
test-lab: bin/golangci-lint ## tests and lint of the lab's module
	cd lab && $(GO) test -vet=off ./...
	cd lab && ../bin/golangci-lint run --allow-parallel-runners --config ../.golangci.yml --enable-only $(LAB_LINTERS) ./...

# Integration tests wait most of the time: two halves run side by side, each with a lab of its own.
HALF := ^Test[CEG-KU]

.PHONY: test-integration test-integration-first test-integration-second
test-integration: deps build ## the other tests on a real control plane
	$(MAKE) -j2 --output-sync=target test-integration-first test-integration-second
test-integration-first: build
	$(INTEGRATION) -run '$(HALF)' -skip '$(SMOKE)'
test-integration-second: build
	$(INTEGRATION) -skip '$(HALF)|$(SMOKE)'

# Older minor versions of Kubernetes: kube-apiserver, kube-controller-manager and kube-scheduler, each minor of a module of its own. No minor
# shares a package with another one, so each fills the build cache anew (1 GB).
KUBERNETES ?= 1.32 1.33 1.34 1.35

bin/kubernetes/v%/version: lab/kubernetes/v%/go.mod lab/kubernetes/v%/go.sum
	@echo "Building the control plane of Kubernetes $*; the first time this takes 4 to 15 minutes."
	mkdir -p $(@D)
	cd lab/kubernetes/v$* && version=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) && \
		$(GO) build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$version -X k8s.io/component-base/version.gitMajor=1 \
			-X k8s.io/component-base/version.gitMinor=$(subst 1.,,$*)" -o $(CURDIR)/$(@D)/ $$($(GO) list tool | grep -v /kubelet) && echo $$version >$(CURDIR)/$@

.PRECIOUS: bin/kubernetes/v%/version

# Of the same module as the control plane: no kubelet may be newer than its API server.
bin/kubernetes/v%/kubelet: bin/kubernetes/v%/version
	@echo "Building the kubelet of Kubernetes $*; the first time this takes minutes."
	cd lab/kubernetes/v$* && version=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) && \
		$(GO) build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$version -X k8s.io/component-base/version.gitMajor=1 \
			-X k8s.io/component-base/version.gitMinor=$(subst 1.,,$*)" -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/kubelet

.PHONY: kubernetes
kubernetes: $(KUBERNETES:%=bin/kubernetes/v%/version) ## build older control planes for the lab (lab up --kubernetes 1.33)

# What is about the lab, about the pages, or an attack, which the lab's own version runs; and the comparison of test/simkube, a model of that version.
NOT_OLDER := ^(TestAttack|TestLab.*|TestAPIServerAnswersAsTheTableSays|TestCommandsOfTheCapacityPageAreAccepted|TestCommandsOfTheLedgerPageAreAccepted|TestCommandsOfEveryPageRun|TestCommandsOfTheQuickStartRun|TestKustomizeBaseIsAccepted)$$

.PHONY: test-kubernetes
test-kubernetes: deps build kubernetes ## the tests on the older control planes, with the webhook; on one of them: KUBERNETES=1.35
	@mkdir -p bin/kubernetes/results; failed=; for minor in $(KUBERNETES); do echo "Kubernetes $$minor"; log=bin/kubernetes/results/$$minor.log; \
		LULL_KUBERNETES=$$minor $(INTEGRATION) -v -skip '$(NOT_OLDER)' >$$log 2>&1 && tail -n 1 $$log || { cat $$log; failed="$$failed $$minor"; }; done; \
		LULL_RESULTS=$(CURDIR)/bin/kubernetes/results $(GO) test -count=1 -run '^TestMatrixSaysWhatRan$$' ./test || failed="$$failed (docs/install.md)"; \
		[ -z "$$failed" ] || { echo "failed on$$failed"; exit 1; }

.PHONY: test-demos
test-demos: build kueue ## the long demos; each fails if a Job ends late or the service is away
	$(MAKE) demo
	$(MAKE) demo DEMO=elastic
	$(MAKE) demo DEMO=follow
	./bin/lull demo --live --outage 24h

OPERATORS := jobset mpi-operator training-operator trainer kuberay appwrapper karpenter

# Each has a module of its own: they rest on different versions of Kubernetes.
bin/operators/%: lab/operators/%/go.mod lab/operators/%/go.sum
	@echo "Building $*; the first time this takes a minute or two."
	cd lab/operators/$* && $(GO) build -ldflags '-s -w' -o ../../../$@ $$($(GO) list tool)

.PHONY: operators
operators: $(OPERATORS:%=bin/operators/%) ## build the operators of the kinds that Lull governs, for their tests

.PHONY: test-operators
test-operators: build operators ## kinds with their real operators
	LULL_LAB=$(CURDIR)/bin/lab LULL_BIN=$(CURDIR)/bin/lull LULL_OPERATORS=$(CURDIR)/bin/operators \
		$(GO) test -tags integration,operators -count=1 -timeout 60m -run Operator ./test/integration

.PHONY: test-browser
test-browser: build ## the web page in Chromium
	@tools/need.sh nodejs=node npm=npm chromium=chromium
	cd test/browser && npm ci --no-audit --no-fund --silent
	LULL_LAB=$(CURDIR)/bin/lab LULL_BIN=$(CURDIR)/bin/lull \
		$(GO) test -tags integration,browser -count=1 -timeout 60m -run Browser ./test/integration

# Kueue itself, but for two lines. With certificates of one's own it takes those of its metrics
# from a fixed path, which becomes a variable. And MultiKueue asks each worker no more than 5 times
# a second, which nobody can configure: where an hour passes in ten seconds that would be once in
# 72 s, so it is lifted to the limit of its own API server. Beside it its own manifests.
bin/kueue/kueue: lab/kueue/go.mod lab/kueue/go.sum
	@echo "Building Kueue; the first time this takes minutes."
	rm -rf bin/kueue && mkdir -p bin/kueue/_src/cmd
	cd lab/kueue && $(GO) mod download sigs.k8s.io/kueue && \
		from=$$($(GO) list -m -f '{{.Dir}}' sigs.k8s.io/kueue) to=$(CURDIR)/bin/kueue src=$(CURDIR)/bin/kueue/_src && \
		cp -r $$from/go.mod $$from/apis $$from/pkg $$src/ && cp -r $$from/cmd/kueue $$src/cmd/ && chmod -R u+w $$src && \
		sed -i 's|"/etc/kueue/metrics/certs"|os.Getenv("KUEUE_METRICS_CERTS")|' $$src/cmd/kueue/main.go && grep -q KUEUE_METRICS_CERTS $$src/cmd/kueue/main.go && \
		remote=$$src/pkg/controller/admissionchecks/multikueue/multikueuecluster.go && \
		sed -i 's|return clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig)|out, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig); if err == nil { out.QPS, out.Burst = 300, 500 }; return out, err|' $$remote && grep -q out.QPS $$remote && \
		cp go.mod $$src/build.mod && cp go.sum $$src/build.sum && $(GO) mod edit -replace sigs.k8s.io/kueue=$$src $$src/build.mod && \
		for file in $$from/config/components/crd/bases/*.yaml $$from/config/components/webhook/manifests.yaml $$from/config/components/map/manifests.yaml; do \
			echo '---'; cat $$file; done >$$to/manifests.yaml && \
		$(GO) build -modfile $$src/build.mod -ldflags '-s -w' -o $$to/kueue sigs.k8s.io/kueue/cmd/kueue

.PHONY: kueue
kueue: bin/kueue/kueue ## build Kueue for the lab (lab up --kueue)

.PHONY: test-fleet
test-fleet: build kueue ## Kueue and many clusters
	LULL_LAB=$(CURDIR)/bin/lab LULL_BIN=$(CURDIR)/bin/lull \
		$(GO) test -tags integration,fleet -count=1 -timeout 60m -run 'Queue|Fleet' ./test/integration

# What a lab with a real node needs: containerd and its tools from a module of their own,
# which rests on another version of Kubernetes; runc from Debian.
NODE := containerd containerd-shim-runc-v2 ctr host-local loopback ptp
NODE_BINARIES := $(addprefix bin/node/,$(NODE) kubelet pause)

.PHONY: node
node: $(NODE_BINARIES) ## build what a lab with a real node needs (lab up --real-node)
	@tools/need.sh runc=runc

$(addprefix bin/node/,$(NODE)) &: lab/node/go.mod lab/node/go.sum
	@echo "Building containerd; the first time this takes a minute or two."
	mkdir -p bin/node
	cd lab/node && $(GO) build -tags no_btrfs,no_devmapper,no_zfs -ldflags '-s -w' -o ../../bin/node/ $$($(GO) list tool)

bin/node/kubelet bin/node/pause: bin/node/%: always
	@[ -e $@ ] || echo "Building $*; the first time the kubelet takes minutes."
	cd lab && $(GO) build -ldflags '$(LAB_LDFLAGS)' -o ../$@ ./cmd/$*

bin/worker: always
	$(GO) build -ldflags '-s -w' -o $@ ./examples/worker

bin/helm: tools/helm/go.mod tools/helm/go.sum
	@echo "Building Helm; the first time this takes a minute or two."
	cd tools/helm && $(GO) build -ldflags '-s -w' -o ../../$@ helm.sh/helm/v4/cmd/helm

IMAGE ?= lull:latest

# Packs image $(1) of the tree $(3) into file $(2), without a daemon.
define pack
	@$(CURDIR)/tools/need.sh buildah=buildah
	store=$$(mktemp -d); trap "rm -rf $$store" EXIT; b="buildah --storage-driver vfs --root $$store/root --runroot $$store/run"; rm -f $(2); \
		$$b bud --quiet --isolation chroot --timestamp 0 -t $(1) -f $(3)/Containerfile $(3) && $$b push --quiet $(1) docker-archive:$(CURDIR)/$(2):$(1)
endef

.PHONY: image
image: bin/lull ## the container image IMAGE (name:tag) in bin/image.tar, as docker load reads it
	$(call pack,$(IMAGE),bin/image.tar,.)

bin/lull-image.tar: bin/lull Containerfile .containerignore
	$(call pack,lull.dev/lull:test,$@,.)

# make test-realnode NODE_KUBERNETES=1.33: with a control plane and a kubelet of that version.
NODE_KUBERNETES ?=

.PHONY: test-realnode
test-realnode: deps build node kueue bin/worker bin/helm bin/lull-image.tar $(NODE_KUBERNETES:%=bin/kubernetes/v%/kubelet) ## a real kubelet, the image and the chart (needs root)
	LULL_KUBERNETES=$(NODE_KUBERNETES) LULL_LAB=$(CURDIR)/bin/lab LULL_BIN=$(CURDIR)/bin/lull LULL_WORKER=$(CURDIR)/bin/worker LULL_HELM=$(CURDIR)/bin/helm LULL_IMAGE=$(CURDIR)/bin/lull-image.tar \
		$(GO) test -tags integration,realnode -count=1 -timeout 60m -run RealNode ./test/integration

bin/slurm/version: tools/slurm.sh
	./tools/slurm.sh bin/slurm

.PHONY: test-slurm
test-slurm: bin/lull bin/slurm/version ## a real Slurm on loopback, and its demo (needs root)
	LULL_SLURM=$(CURDIR)/bin/slurm LULL_BIN=$(CURDIR)/bin/lull $(GO) test -tags slurm -count=1 -timeout 90m ./test/slurm
	./bin/lull demo slurm

.PHONY: test-slurm-short
test-slurm-short: bin/lull ## what Lull promises, on a real Slurm; skipped where none can be had
	./tools/slurmshort.sh bin/slurm bin/lull

# What the tests need beyond Go: Python 3 for the independent scorer of plans and the auditor, Prometheus, and PostgreSQL.
.PHONY: deps
deps:
	@tools/need.sh python3-minimal=python3 prometheus=prometheus 'postgresql=/usr/lib/postgresql/*/bin/initdb'

# Linters that look at one package at a time: the others would analyse all of
# Kubernetes, which the lab compiles in.
LAB_LINTERS := errcheck,gocritic,ineffassign,misspell,revive,unconvert

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint with the import rules
	./bin/golangci-lint run --allow-parallel-runners ./...

.PHONY: fmt
fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

.PHONY: generate
generate: bin/controller-gen ## regenerate deep copies, custom resources and access rules
	./bin/controller-gen object paths=./api/...
	./bin/controller-gen crd:allowDangerousTypes=true,maxDescLen=400 paths=./api/... output:crd:dir=charts/lull/files/crd
	for role in engine/controller:controller fleet/hub:kueue cluster/curve:capacity engine/failsafe:failsafe cluster/autoscale:autoscaling; do \
		from=$${role%:*} to=$${role#*:}; name=$$to; [ $$to != kueue ] || name=fleet; \
		./bin/controller-gen rbac:roleName=lull-$$name,fileName=$$to.yaml paths=./internal/$$from/... output:rbac:dir=charts/lull/files/rbac; done
	LULL_UPDATE=1 $(GO) test -count=1 -run TestGenerated ./charts
	LULL_UPDATE=1 $(GO) test -count=1 -run TestReference ./internal/cli
	LULL_UPDATE=1 $(GO) test -count=1 -run TestReference ./internal/base/metrics

bin/release: always
	cd tools/release && $(GO) build -o ../../$@ .

.PHONY: release
release: ## binaries, chart, bills of materials and checksums of VERSION (v0.1.0) in dist/; URL=... for krew
	tools/release/release.sh $(VERSION) $(URL) $(HOMEPAGE)

.PHONY: licences
licences: bin/lull bin/release ## what is linked in, and under which licences; fails on one that is not accepted
	./bin/release licences bin/lull > docs/licences.md

# Go's vulnerability database: the copy beside the evaluation data if there is one, else the public one.
VULNDB := $(abspath $(wildcard $(or $(LULL_DATA),../shared/data)/vulndb.tgz))

bin/vulndb: $(VULNDB)
	rm -rf $@ && mkdir -p $@ && tar -xzf $< -C $@
	@touch $@

# Without the copy and without a network the target says that nothing was checked; that is not an error.
.PHONY: vulnerabilities
vulnerabilities: bin/govulncheck $(if $(VULNDB),bin/vulndb) ## known vulnerabilities in what is linked in
	@$(if $(VULNDB),echo "Vulnerability database: $(VULNDB)" $$(cat bin/vulndb/db/index/db.json))
	@out=$$(./bin/govulncheck $(if $(VULNDB),-db file://$(CURDIR)/bin/vulndb/db) ./cmd/lull 2>&1) && echo "$$out" | sed '/^Use/d' || \
		{ echo "$$out"; echo "$$out" | grep -q "fetching vulnerabilities" && echo "NOT CHECKED for vulnerabilities: their database cannot be reached"; }

# The last tag, or the commit before this one if there is no tag.
FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse --short HEAD~1 2>/dev/null)

.PHONY: test-upgrade
test-upgrade: deps build node kueue bin/worker bin/helm bin/lull-image.tar ## an upgrade of the chart from tag or commit FROM, by default the last tag, else HEAD~1 (needs root)
	@[ -n "$(FROM)" ] || { echo "FROM: not set; accepted: a commit or tag, as in make test-upgrade FROM=v0.1.0"; exit 1; }
	rm -rf bin/previous && mkdir bin/previous && git archive $(FROM) | tar -x -C bin/previous
	cd bin/previous && $(GO) build -ldflags '-s -w' -o bin/lull ./cmd/lull
	$(call pack,lull.dev/lull:previous,bin/previous.tar,bin/previous)
	LULL_PREVIOUS=$(CURDIR)/bin/previous LULL_LAB=$(CURDIR)/bin/lab LULL_BIN=$(CURDIR)/bin/lull LULL_WORKER=$(CURDIR)/bin/worker LULL_HELM=$(CURDIR)/bin/helm LULL_IMAGE=$(CURDIR)/bin/lull-image.tar \
		$(GO) test -tags integration,realnode -count=1 -timeout 60m -run RealNodeHelm ./test/integration

# It rewrites the generated files in place, as make generate does: what git diff then shows was out of date.
.PHONY: verify
verify: generate lint licences vulnerabilities ## rewrite generated files, fail if one changed; formatting, modules, lint, licences, vulnerabilities
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || (echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1)
	$(GO) vet -tags integration,fleet,operators,browser,realnode ./test/integration
	$(GO) vet -tags slurm ./test/slurm
	$(GO) mod tidy -diff
	cd lab && $(GO) mod tidy -diff
	@git diff --exit-code -- api charts kustomize docs/reference.md docs/reference-fields.md docs/reference-commands.md docs/licences.md || (echo "generated files are out of date: commit what make generate changed"; exit 1)
	@test -z "$$(git ls-files --others --exclude-standard -- api charts kustomize)" || (echo "generated files are not committed"; exit 1)

.PHONY: bench
bench: ## benchmarks of pkg/ (compare two outputs: go tool -modfile=tools/go.mod benchstat old new)
	$(GO) test -run '^$$' -bench . -benchmem ./pkg/...

N ?= 10
PKG ?= ./pkg/... ./internal/...
RUN ?= .

.PHONY: test-repeat
test-repeat: bin/gotestsum ## tests RUN of PKG, N times on a busy machine; lists what failed, and how often
	tools/test-repeat.sh $(N) '$(RUN)' $(PKG)

# The packages whose tests wait, or have a clock of their own: what is wrong there shows now and then only. The control loop has worlds of
# its own (make test-seeds).
TIMED = $(shell grep -rlE --include='*_test.go' '"testing/synctest"|time\.(Sleep|After|NewTimer|NewTicker|Tick)\b' internal pkg | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: test-timed
test-timed: deps bin/gotestsum ## the tests of all packages that use time, three times in one process, on a busy machine
	tools/test-repeat.sh 3 . $(TIMED)

.PHONY: test-slowest
test-slowest: bin/gotestsum ## the slowest twenty tests of PKG, and what they take
	bin/gotestsum --format pkgname-and-test-fails --jsonfile bin/tests.json -- -count=1 $(PKG)
	bin/gotestsum tool slowest --num 20 --jsonfile bin/tests.json

bin/gotestsum: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$@ gotest.tools/gotestsum

# The packages whose tests have a large size: they import lull.dev/lull/test/size.
LARGE = $(shell grep -rl --include='*_test.go' '"lull.dev/lull/test/size"' internal pkg | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: test-seeds
test-seeds: deps ## the random tests at large sizes; a failure stops none of them
	@failed=; run() { echo "$$*"; env "$$@" || failed=1; }; \
		run LULL_LARGE=1 $(GO) test -count=1 -timeout 1h $(LARGE); \
		run LULL_LARGE=1 LULL_PROMISE_JOBS=2000 $(GO) test -count=1 -timeout 2h ./test/promise; \
		run LULL_WORLDS=10 $(GO) test -count=1 -timeout 2h -run 'TestPromise|TestRestarts|TestNoFalseAlarms|TestVerifyNotices' ./pkg/decide; \
		run $(GO) test -count=1 -timeout 90m -run TestControlLoop ./test/controlloop -seeds 50; \
		[ -z "$$failed" ]

# The race detector needs C. Most packages take five to ten times as long, so the random tests of planners draw few instances.
.PHONY: test-race
test-race: deps ## the tests of pkg and internal with the race detector
	@tools/need.sh gcc=gcc libc6-dev=/usr/include/stdlib.h
	CGO_ENABLED=1 LULL_RANDOM=10 $(GO) test -race -timeout 40m ./pkg/... ./internal/...

.PHONY: fuzz
fuzz: ## fuzz every parser for FUZZTIME each
	@for target in $$(grep -rho --include='*_test.go' '^func Fuzz[A-Za-z]*' pkg internal | sed 's/func //' | sort -u); do \
		package=$$(dirname $$(grep -rl --include='*_test.go' "func $$target(" pkg internal)); \
		echo "$$target in $$package"; \
		$(GO) test ./$$package -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME); \
	done

# A link to a page that is not there is an error of Hugo's; check follows every link of what Hugo wrote, and its fragment.
.PHONY: site
site: bin/hugo ## the pages of docs/ as a static site in dist/site; fails on a broken link
	./bin/hugo --config tools/site/hugo.toml --noBuildLock --cleanDestinationDir
	cd tools/site && $(GO) test ./check && $(GO) run ./check ../../dist/site

bin/hugo: tools/site/go.mod tools/site/go.sum
	@echo "Building Hugo; the first time this takes minutes."
	cd tools/site && $(GO) build -ldflags '-s -w' -o ../../$@ github.com/gohugoio/hugo

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist demo-report.html fidelity.md

bin/controller-gen: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$@ sigs.k8s.io/controller-tools/cmd/controller-gen

bin/govulncheck: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$@ golang.org/x/vuln/cmd/govulncheck

bin/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && $(GO) build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
