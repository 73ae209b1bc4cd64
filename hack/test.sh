#!/usr/bin/env bash
# Runs every test there is on a real Docker engine. Arguments go to cargo nextest, so one test is: hack/test.sh adoption
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/setup.sh test
DOCKER_HOST=$(hack/setup.sh endpoint)
export DOCKER_HOST
# A test that fails reports what it waited for and what it saw; a backtrace through the runtime adds nothing.
export RUST_BACKTRACE=0

# A kubelet mounts and changes owners, so where we are not root the tests run through sudo.
if [ "$(id -u)" != 0 ]; then
  runner=CARGO_TARGET_$(rustc --print host-tuple | tr 'a-z-' 'A-Z_')_RUNNER
  export "$runner=sudo -E"
fi

# One build for all: the binaries the tests run, and the tests.
cargo build --workspace --locked --bins --tests
cargo test --quiet --workspace --locked --doc
exec cargo nextest run --workspace --locked ${CI:+--profile ci} "$@"
