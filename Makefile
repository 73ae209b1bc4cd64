# Each target installs what it needs through hack/setup.sh.
.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster test test-engine check unit bench static image release deb

# All tests except those of the crate `tests`, which need a Docker engine, and those of the storage that need an etcd. `tidy` needs neither.
WITHOUT_ENGINE := (not package(tests) or kind(lib) or binary(tidy)) and not test(storage::etcd::tests::real)

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## run a lone node with examples/standalone until Ctrl-C (ONCE=1: until every pod is Ready)
	@hack/demo.sh

demo-cluster: ## run a cluster of three nodes, with the master as a static pod, until Ctrl-C (ONCE=1: until every pod is Ready)
	@hack/demo-cluster.sh

test: ## run every test, on a real Docker engine (NAME=x: the tests whose name contains x)
	@hack/test.sh $(if $(filter command,$(origin NAME)),$(NAME))

test-engine: ## run the tests that `make check` does not run
	@hack/test.sh -E 'not ($(WITHOUT_ENGINE))'

check: ## check format, lints, prose, docs and dependencies, and run the unit tests; needs no engine
	@hack/setup.sh check
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --quiet --workspace --no-deps --document-private-items --locked
	@hack/lint-prose.sh
	@hack/deny.sh
	cargo nextest run --workspace --locked -E '$(WITHOUT_ENGINE)'

unit: ## run the tests that need neither an engine nor root
	@hack/setup.sh unit
	cargo nextest run --workspace --locked -E '$(WITHOUT_ENGINE)'

bench: ## run the benchmarks, against a bare engine and fixed targets (ARGS=--quick: with small numbers)
	@hack/bench.sh $(ARGS)

PROFILE ?= release
BINS ?= kubelet master demo-cluster
static: ## build kubelet and master as static binaries, which run in an image FROM scratch
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile $(PROFILE) --locked --workspace $(addprefix --bin ,$(BINS)) --target $$(rustc --print host-tuple)

release: ## build static binaries with fat LTO, SHA256SUMS and SBOMs into target/dist/coracle-VERSION-TARGET
	@hack/release.sh

deb: ## build the Debian packages coracle-kubelet and coracle-master, with static binaries, into target/deb
	@$(MAKE) --no-print-directory static BINS="kubelet master command-pages"
	@hack/deb.sh $${CARGO_TARGET_DIR:-target}/$$(rustc --print host-tuple)/$(PROFILE:dev=debug)

image: static ## build the images coracle/master, for manifests/master.yaml, and coracle/kubelet, FROM scratch
	@PROFILE=$(PROFILE) TAG=$(TAG) hack/image.sh
