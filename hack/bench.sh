#!/usr/bin/env bash
# Runs the benchmarks on builds of the profile dist, which `make release` ships. Arguments go to the benchmarks: hack/bench.sh --quick
#   hack/bench.sh kubelet --only a     only the kubelet, on a real Docker engine
#   hack/bench.sh master --large       only the master, which needs no engine
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# build PROGRAM...: builds programs as `make release` does, except that they are not static, and names them to the benchmarks.
build() {
  local program
  cargo build --quiet --profile dist --locked "${@/#/--package=}"
  for program; do export "CORACLE_${program^^}=$(realpath "${CARGO_TARGET_DIR:-target}")/dist/$program"; done
}

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
  build kubelet master
  cargo bench --quiet --locked --package tests --bench kubelet -- "$@"
}

master() {
  build master
  cargo bench --quiet --locked --package tests --bench master -- "$@"
}

case ${1:-} in
  kubelet | master) "$@" ;;
  *) master "$@"; kubelet "$@" ;;
esac
