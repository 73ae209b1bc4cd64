#!/usr/bin/env bash
# Builds the image of the master from the static binary: coracle/master:<version> and :latest, or only :TAG. It contains nothing else.
# The image goes into the engine at DOCKER_HOST, or of this machine, so that a kubelet can start it from manifests/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "image: $*"; }

# Starts a Docker engine if none answers.
hack/setup.sh demo
DOCKER_HOST=$(hack/setup.sh endpoint)
export DOCKER_HOST
SUDO=
[ "$(id -u)" = 0 ] || SUDO="sudo -E"

VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
PROFILE=${PROFILE:-release}
# The directory of the profile dev is called debug.
BINARIES=${CARGO_TARGET_DIR:-target}/$(rustc --print host-tuple)/${PROFILE/#dev/debug}
IMAGE=coracle/master:${TAG:-$VERSION}

tar -C "$BINARIES" --numeric-owner --owner=0 --group=0 -c master \
  | $SUDO docker import --message "coracle master $VERSION" --change 'ENTRYPOINT ["/master"]' - "$IMAGE" >/dev/null
[ -n "${TAG:-}" ] || $SUDO docker tag "$IMAGE" coracle/master:latest
say "built $IMAGE: $($SUDO docker image inspect --format '{{.Size}}' "$IMAGE" | numfmt --to=iec), only the master"
