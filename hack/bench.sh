#!/usr/bin/env bash
# Runs the benchmarks on release builds. Arguments go to the benchmarks: hack/bench.sh --quick
#   hack/bench.sh kubelet --only a     only the kubelet, on a real Docker engine
#   hack/bench.sh master --large       only the master, which needs no engine
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kubelet() {
  hack/setup.sh bench
  DOCKER_HOST=$(hack/setup.sh endpoint)
  export DOCKER_HOST
  # As in test.sh: a kubelet needs root for mounts and file owners.
  if [ "$(id -u)" != 0 ]; then
    local runner
    runner=CARGO_TARGET_$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')_RUNNER
    export "$runner=sudo -E"
  fi
  # The master too: one benchmark measures a node of a cluster.
  cargo build --quiet --release --locked --package kubelet --package master
  cargo bench --quiet --locked --package tests --bench kubelet -- "$@"
}

master() {
  cargo build --quiet --release --locked --package master
  cargo bench --quiet --locked --package tests --bench master -- "$@"
}

case ${1:-} in
  kubelet | master) "$@" ;;
  *) master "$@"; kubelet "$@" ;;
esac
