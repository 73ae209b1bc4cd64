# Each target does all its own set-up through hack/setup.sh.
.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster test check bench static image

# Everything but the tests of crate `tests` that need a Docker engine, and those of the stores that need an etcd; tidy needs none.
WITHOUT_ENGINE := (not package(tests) or kind(lib) or binary(tidy)) and not test(storage::etcd::tests::real)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 10

demo: ## a lone node that runs examples/standalone until Ctrl-C (ONCE=1: until all is Ready)
	@hack/demo.sh

demo-cluster: ## three nodes, the first of which starts the master as a static pod, until Ctrl-C (ONCE=1: until all is Ready)
	@hack/demo-cluster.sh

test: ## every test there is, on a real Docker engine
	@hack/test.sh

check: ## format, lints, docs, dependencies, unit tests; needs no engine
	@hack/setup.sh check
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --quiet --workspace --no-deps --document-private-items --locked
	@hack/deny.sh
	cargo nextest run --workspace --locked -E '$(WITHOUT_ENGINE)'

bench: ## the benchmarks, against a bare engine and fixed targets; ARGS=--quick tries them out
	@hack/bench.sh $(ARGS)

PROFILE ?= release
static: ## kubelet and master as static binaries that run in an image FROM scratch
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --profile $(PROFILE) --locked --workspace --bins --target $$(rustc --print host-tuple)

image: static ## coracle/master in the Docker engine, FROM scratch, for manifests/master.yaml
	@PROFILE=$(PROFILE) TAG=$(TAG) hack/image.sh
