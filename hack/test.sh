#!/usr/bin/env bash
# Runs every test on a real Docker engine. Arguments go to cargo nextest: hack/test.sh adoption runs the tests with that name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/setup.sh test
DOCKER_HOST=$(hack/setup.sh endpoint)
export DOCKER_HOST
# A failed test reports what it waited for and what it saw; a backtrace through the async runtime adds nothing.
export RUST_BACKTRACE=0

# A kubelet needs root to mount volumes and to change file owners, so without root the tests run through sudo.
if [ "$(id -u)" != 0 ]; then
  runner=CARGO_TARGET_$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')_RUNNER
  export "$runner=sudo -E"
fi

# Build everything at once: the binaries that the tests run, and the tests.
cargo build --workspace --locked --bins --tests
cargo test --quiet --workspace --locked --doc
# Below 15 % (`imagefs.available`) kubelets report DiskPressure, and no pod is scheduled on their nodes.
read -r blocks free < <(stat --file-system --format '%b %a' "${TMPDIR:-/tmp}")
free_percent=$((free * 100 / blocks))
[ $free_percent -ge 20 ] || echo "test: WARNING: only $free_percent % of the disk is free; tests that schedule pods fail below 15 %" >&2
# Tests with stock programs run if CORACLE_PEERS names a folder with them (.config/nextest.toml).
exec cargo nextest run --workspace --locked ${CI:+--profile ci} ${CORACLE_PEERS:+--ignore-default-filter} "$@"
