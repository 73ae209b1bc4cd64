#!/usr/bin/env bash
# Measures the release builds. Arguments go to the benches: hack/bench.sh --quick
#   hack/bench.sh kubelet --only a     the kubelet alone, on a real Docker engine
#   hack/bench.sh master --large       the master alone, which needs no engine
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kubelet() {
  hack/setup.sh bench
  DOCKER_HOST=$(hack/setup.sh endpoint)
  export DOCKER_HOST
  # As in test.sh: a kubelet mounts and changes owners.
  if [ "$(id -u)" != 0 ]; then
    local runner
    runner=CARGO_TARGET_$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')_RUNNER
    export "$runner=sudo -E"
  fi
  # The master beside it: nodes of one are measured, too.
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
