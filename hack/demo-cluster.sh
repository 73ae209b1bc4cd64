#!/usr/bin/env bash
# Three machines in network namespaces, each with a Docker engine of its own: the first starts the master as a static pod, two join it.
# Runs until Ctrl-C, then takes everything down again. With ONCE=1 it ends by itself as soon as every node and every pod is Ready.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/setup.sh demo-cluster
DOCKER_HOST=$(hack/setup.sh endpoint)
export DOCKER_HOST

# Linked as what is shipped, and not optimized: that takes several times as long to build.
make --no-print-directory image PROFILE=dev TAG=demo
BINARIES=$PWD/${CARGO_TARGET_DIR:-target}/$(rustc --print host-tuple)/debug

# Namespaces, mounts and engines are root's.
SUDO=
[ "$(id -u)" = 0 ] || SUDO="sudo -E"
exec $SUDO env TAG=demo CORACLE_KUBELET="$BINARIES/kubelet" "$BINARIES/demo-cluster"
