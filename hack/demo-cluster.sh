#!/usr/bin/env bash
# Starts three machines in network namespaces, each with its own Docker engine. The first runs the master as a static pod, the others join it.
# Runs until Ctrl-C, then removes everything. With ONCE=1 it ends by itself when every node and every pod is Ready.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/setup.sh demo-cluster
DOCKER_HOST=$(hack/setup.sh endpoint)
export DOCKER_HOST

# Static binaries, as in a release. An up-to-date release build is used if there is one. Otherwise the build is not optimized, because an
# optimized one takes several times as long.
TARGET=$PWD/${CARGO_TARGET_DIR:-target}/$(rustc --print host-tuple)
PROFILE=release
for program in kubelet master demo-cluster; do
  built=$TARGET/release/$program
  if [ ! -x "$built" ] || [ -n "$(find Cargo.toml Cargo.lock api apiserver cel client command kubelet master tests/src -newer "$built" -type f -print -quit)" ]; then
    PROFILE=dev
  fi
done
BINARIES=$TARGET/release
[ "$PROFILE" = release ] || BINARIES=$TARGET/debug
echo "demo-cluster: uses the $PROFILE build"
make --no-print-directory image PROFILE="$PROFILE" TAG=demo

# Namespaces, mounts and engines need root.
SUDO=
[ "$(id -u)" = 0 ] || SUDO="sudo -E"
exec $SUDO env TAG=demo CORACLE_KUBELET="$BINARIES/kubelet" "$BINARIES/demo-cluster"
