#!/usr/bin/env bash
# Measures the release build on a real Docker engine. Arguments go to the bench: hack/bench.sh --quick --only a
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/setup.sh demo
DOCKER_HOST=$(hack/setup.sh endpoint)
export DOCKER_HOST

# As in test.sh: a kubelet mounts and changes owners.
if [ "$(id -u)" != 0 ]; then
  runner=CARGO_TARGET_$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')_RUNNER
  export "$runner=sudo -E"
fi

cargo build --quiet --release --locked --package kubelet
exec cargo bench --quiet --locked --package tests --bench kubelet -- "$@"
