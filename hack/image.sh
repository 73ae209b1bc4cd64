#!/usr/bin/env bash
# Makes the image of the master, coracle/master:<version> and :latest, or :TAG alone, of the static binary: nothing else is in it.
# It lies in the engine that answers (DOCKER_HOST, or this machine's own), whose kubelet may start it from manifests/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "image: $*"; }

# A Docker engine, if none answers.
hack/setup.sh demo
DOCKER_HOST=$(hack/setup.sh endpoint)
export DOCKER_HOST
SUDO=
[ "$(id -u)" = 0 ] || SUDO="sudo -E"

VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
PROFILE=${PROFILE:-release}
# What cargo calls the directory of its profile dev.
BINARIES=${CARGO_TARGET_DIR:-target}/$(rustc --print host-tuple)/${PROFILE/#dev/debug}
IMAGE=coracle/master:${TAG:-$VERSION}

tar -C "$BINARIES" --numeric-owner --owner=0 --group=0 -c master \
  | $SUDO docker import --message "coracle master $VERSION" --change 'ENTRYPOINT ["/master"]' - "$IMAGE" >/dev/null
[ -n "${TAG:-}" ] || $SUDO docker tag "$IMAGE" coracle/master:latest
say "$IMAGE is there: $($SUDO docker image inspect --format '{{.Size}}' "$IMAGE" | numfmt --to=iec), the master and nothing else"
