#!/usr/bin/env bash
# Builds the images of both programs from their static binaries: coracle/master and coracle/kubelet with the tags <version> and latest, or
# only TAG. They contain nothing else.
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

for program in master kubelet; do
  image=coracle/$program:${TAG:-$VERSION}
  tar -C "$BINARIES" --numeric-owner --owner=0 --group=0 -c "$program" \
    | $SUDO docker import --message "coracle $program $VERSION" --change "ENTRYPOINT [\"/$program\"]" - "$image" >/dev/null
  [ -n "${TAG:-}" ] || $SUDO docker tag "$image" "coracle/$program:latest"
  say "built $image: $($SUDO docker image inspect --format '{{.Size}}' "$image" | numfmt --to=iec), only the $program"
done
