#!/usr/bin/env bash
# Installs what a make target needs, and nothing else. Safe to run again; prints what it installs.
#
#   hack/setup.sh demo       a Docker engine, the example image
#   hack/setup.sh demo-cluster  the same, dockerd, kubectl, iproute2, nftables
#   hack/setup.sh test       a Docker engine, the test images, a container registry, kubectl, etcd, iptables, nft, libfaketime, Python clients, Chromium, axe-core,
#                            the test runner
#   hack/setup.sh bench      a Docker engine, the example image, podman to compare with
#   hack/setup.sh check      rustfmt, clippy, the test runner, cargo-deny
#   hack/setup.sh unit       the test runner
#   hack/setup.sh release    cargo-cyclonedx
#   hack/setup.sh endpoint   prints the endpoint of the engine that answers (for DOCKER_HOST)
#
# It uses a running engine at DOCKER_HOST or /var/run/docker.sock as it is, and never changes it.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=$ROOT/target/setup                 # programs from Debian packages that are unpacked, not installed
DEFAULT_ENDPOINT=unix:///var/run/docker.sock
DOCKERD_LOG=/var/log/coracle-dockerd.log
ENGINE_DEADLINE_SECONDS=90               # a cold dockerd on a busy two-core machine takes about ten
NEXTEST_VERSION=0.9.143
AXE_VERSION=4.10.3                       # with the digest of its package at the npm registry
AXE_SHA256=0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292
DENY_VERSION=0.20.2
CYCLONEDX_VERSION=0.5.9

# Increase when the content of an image changes: images of another recipe are rebuilt.
BUSYBOX_RECIPE=1

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

SUDO=
[ "$(id -u)" = 0 ] || ! have sudo || SUDO=sudo

# --- Debian packages -------------------------------------------------------------------------------------

APT_UPDATED=
apt_update() {
  [ -z "$APT_UPDATED" ] || return 0
  have apt-get || die "$1 is missing and there is no apt-get here to get it with: install $1 by hand, then run this again"
  [ "$(id -u)" = 0 ] || [ -n "$SUDO" ] || die "$1 is missing: run this as root or as a user who may use sudo, or ask someone to: apt-get install $1"
  $SUDO apt-get update -qq >&2 || die "apt-get update failed, so $1 cannot be installed: see its message above, then run this again"
  APT_UPDATED=yes
}

apt_install() {
  apt_update "$1"
  say "installing Debian's $*"
  $SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null \
    || die "apt-get install $* failed: see its message above"
}

# unpacked PACKAGE PROGRAM: prints the path of a program of a Debian package.
# The package is unpacked under target/setup and not installed, so that none of its services starts.
unpacked() {
  local package=$1 program=$2
  if [ ! -x "$CACHE/$package/$program" ]; then
    apt_update "$package"
    say "unpacking Debian's $package into target/setup" >&2
    rm -rf "${CACHE:?}/$package" && mkdir -p "$CACHE/$package"
    (cd "$CACHE/$package" && apt-get -o APT::Sandbox::User=root download -qq "$package" >&2 && dpkg -x "$package"_*.deb . && rm -f ./*.deb) \
      || die "Debian's $package could not be fetched: see the message above"
  fi
  echo "$CACHE/$package/$program"
}

# --- the engine ------------------------------------------------------------------------------------------

# docker_at ENDPOINT ARGS: runs the docker command on that endpoint, with sudo where necessary.
docker_at() { local endpoint=$1; shift; $SUDO env DOCKER_HOST="$endpoint" docker "$@"; }

# api ENDPOINT PATH CURL-ARGS: calls the HTTP API of the engine, for machines without a docker command.
api() {
  local endpoint=$1 path=$2; shift 2
  have curl || apt_install curl ca-certificates
  case $endpoint in
    unix://*) $SUDO curl -sS --fail --unix-socket "${endpoint#unix://}" "$@" "http://engine$path" ;;
    tcp://*) curl -sS --fail "$@" "http://${endpoint#tcp://}$path" ;;
    *) die "DOCKER_HOST=$endpoint needs the docker command: install docker.io or the docker CLI" ;;
  esac
}

answers() {
  case $1 in unix://*) [ -S "${1#unix://}" ] || return 1 ;; esac
  if have docker; then
    timeout 15 $SUDO env DOCKER_HOST="$1" docker version --format '{{.Server.Version}}' >/dev/null 2>&1
  else
    api "$1" /_ping --max-time 10 >/dev/null 2>&1
  fi
}

# Sets ENDPOINT to the engine that answers; fails if none does.
find_engine() {
  local candidate
  for candidate in ${DOCKER_HOST:+"$DOCKER_HOST"} "$DEFAULT_ENDPOINT"; do
    if answers "$candidate"; then ENDPOINT=$candidate; return 0; fi
  done
  return 1
}

# Succeeds when a dockerd of this machine runs, even if it does not answer (yet).
dockerd_runs() {
  local pid
  pid=$($SUDO cat /var/run/docker.pid 2>/dev/null) || return 1
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]
}

start_engine() {
  if [ -d /run/systemd/system ]; then
    say "starting the docker service"
    $SUDO systemctl start docker || die "systemd could not start Docker: see journalctl -u docker"
    return
  fi
  if [ ! -e /sys/fs/cgroup/cgroup.controllers ] && [ ! -d /sys/fs/cgroup/memory ]; then
    have cgroupfs-mount || apt_install cgroupfs-mount
    $SUDO cgroupfs-mount || die "the control groups cannot be mounted here and Docker needs them: run in a machine or container that is allowed to"
  fi
  say "starting dockerd as a plain process, log in $DOCKERD_LOG"
  # Close descriptors: the engine must not keep the setup lock or a pipe of the caller open.
  $SUDO sh -c "exec 9>&-; setsid dockerd >>$DOCKERD_LOG 2>&1 </dev/null &"
}

engine() {
  if find_engine; then say "using the Docker engine at $ENDPOINT"; return; fi
  [ -z "${DOCKER_HOST:-}" ] || say "no engine answers at DOCKER_HOST=$DOCKER_HOST; trying the engine of this machine"
  have dockerd || [ -x /usr/sbin/dockerd ] || apt_install docker.io ca-certificates
  dockerd_runs || find_engine || start_engine
  local deadline=$((SECONDS + ENGINE_DEADLINE_SECONDS))
  until find_engine; do
    [ $SECONDS -lt $deadline ] || die "the Docker engine did not answer within $ENGINE_DEADLINE_SECONDS s$(why_engine_failed)"
    sleep 0.2
  done
  say "the Docker engine at $ENDPOINT is up"
}

why_engine_failed() {
  local last
  last=$($SUDO tail -n 1 "$DOCKERD_LOG" 2>/dev/null) || last=
  if dockerd_runs; then echo ": dockerd runs but does not answer; restart it, or set DOCKER_HOST to another engine"
  elif [ -n "$last" ]; then echo "; $DOCKERD_LOG ends with: $last"
  else echo ": set DOCKER_HOST to a running engine"; fi
}

# --- the images ------------------------------------------------------------------------------------------

image_recipe() {
  if have docker; then docker_at "$ENDPOINT" image inspect --format '{{.Comment}}' "$1" 2>/dev/null
  else api "$ENDPOINT" "/images/$1/json" 2>/dev/null | sed -n 's/.*"Comment":"\([^"]*\)".*/\1/p'; fi
}

# import REPOSITORY TAG RECIPE: creates an image from the tar stream on standard input.
import() {
  local path='ENV PATH=/bin' command='CMD ["sh"]'
  if have docker; then
    docker_at "$ENDPOINT" import --message "$3" --change "$path" --change "$command" - "$1:$2" >/dev/null
  else
    api "$ENDPOINT" "/images/create?fromSrc=-&repo=$1&tag=$2&message=$3&changes=ENV%20PATH%3D%2Fbin&changes=CMD%20%5B%22sh%22%5D" \
      --header 'Content-Type: application/x-tar' --data-binary @- | { ! grep '"error"' >&2; }
  fi
}

static_busybox() {
  if dpkg -s busybox-static >/dev/null 2>&1 && [ -x /bin/busybox ]; then echo /bin/busybox
  else unpacked busybox-static bin/busybox; fi
}

images() {
  local busybox recipe stage applet
  busybox=$(static_busybox)
  recipe=coracle-busybox-$BUSYBOX_RECIPE-$(sha256sum "$busybox" | cut -c1-12)
  [ "$(image_recipe coracle/busybox:1)" != "$recipe" ] || return 0
  say "building the image coracle/busybox:1 from Debian's busybox-static"
  stage=$(mktemp -d)
  mkdir -p "$stage"/{bin,dev,etc,home/user,proc,root,sys,tmp,var/run,www}
  cp "$busybox" "$stage/bin/busybox"
  for applet in $("$busybox" --list); do [ "$applet" = busybox ] || ln -s busybox "$stage/bin/$applet"; done
  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'user:x:1000:1000:user:/home/user:/bin/sh' \
    'nobody:x:65534:65534:nobody:/:/bin/false' >"$stage/etc/passwd"
  printf '%s\n' 'root:x:0:' 'user:x:1000:' 'extra:x:2000:user' 'nogroup:x:65534:' >"$stage/etc/group"
  chmod 755 "$stage" && chmod 1777 "$stage/tmp" && chmod 700 "$stage/root"
  tar -C "$stage" --numeric-owner --owner=0 --group=0 -c . | import coracle/busybox 1 "$recipe" \
    || die "the engine at $ENDPOINT refused the image coracle/busybox:1: see its message above"
  rm -rf "$stage"
}

# --- for the tests only -------------------------------------------------------------------------------------

# The tests look for docker-registry on the PATH, then in target/setup.
registry() { have docker-registry || unpacked docker-registry usr/bin/docker-registry >/dev/null; }

# The kubectl of Debian is old, so the tests use it in addition to a newer one on this machine.
kubectl_command() { unpacked kubernetes-client usr/bin/kubectl >/dev/null; }
# etcd is unpacked too, so that its service never starts.
etcd_command() { have etcd || unpacked etcd-server usr/bin/etcd >/dev/null; }

# A library that changes the clock of a program.
fake_clock() {
  local library=usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1
  [ -e "/$library" ] || [ -e "$CACHE/libfaketime/$library" ] || unpacked libfaketime "$library" >/dev/null
}

# Tests set up other firewalls with these commands. The kubelet does not need them.
packet_filters() {
  have iptables || apt_install iptables
  have nft || apt_install nftables
}

# For machines in network namespaces: an engine each, links, and a switch that drops packets.
machines() {
  have dockerd || [ -x /usr/sbin/dockerd ] || apt_install docker.io ca-certificates
  have ip || apt_install iproute2
  have nft || apt_install nftables
}

# The benchmarks compare with podman. Only its commands are used, and no service is started.
peer() { have podman || apt_install podman netavark runc nftables iproute2; }

# Python clients, with the versions in tests/requirements.txt. The stamp records these versions.
python_clients() {
  local venv=$CACHE/python requirements=$ROOT/tests/requirements.txt stamp
  have python3 || apt_install python3
  stamp=$(python3 --version; sha256sum <"$requirements")
  if [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ] && "$venv/bin/python" -c '' 2>/dev/null; then return; fi
  python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
  say "installing the Python clients of tests/requirements.txt into target/setup"
  rm -rf "$venv"
  python3 -m venv "$venv" || die "python3 -m venv $venv failed: see its message above"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --requirement "$requirements" >&2 \
    || die "pip could not install tests/requirements.txt: see its message above, then run this again"
  echo "$stamp" >"$venv/stamp"
}

# Chromium with its driver, and axe-core, which checks the accessibility of pages. Only tests use it: MPL-2.0, not part of any release.
browser() {
  have chromium && have chromedriver || apt_install chromium chromium-driver
  local folder=$CACHE/axe-core archive=axe-core-$AXE_VERSION.tgz
  [ "$(cat "$folder/stamp" 2>/dev/null)" != "$AXE_VERSION" ] || return 0
  have npm || apt_install npm
  say "fetching axe-core $AXE_VERSION from npm into target/setup"
  rm -rf "$folder" && mkdir -p "$folder"
  (cd "$folder" && npm pack --silent "axe-core@$AXE_VERSION" >/dev/null) || die "npm could not fetch axe-core $AXE_VERSION: see its message above, then run this again"
  echo "$AXE_SHA256  $folder/$archive" | sha256sum --check --quiet >&2 || die "axe-core $AXE_VERSION has another digest than AXE_SHA256: it is not used"
  tar -xzf "$folder/$archive" -C "$folder" --strip-components=1 package/axe.min.js package/LICENSE && rm "$folder/$archive"
  echo "$AXE_VERSION" >"$folder/stamp"
}

rust_components() {
  local component
  for component in rustfmt clippy; do
    cargo "${component/rust/}" --version >/dev/null 2>&1 && continue
    have rustup || die "$component is missing: install it beside your Rust toolchain"
    say "installing $component"
    rustup component add "$component" || die "rustup could not add $component: see its message above"
  done
}

# cargo_tool NAME VERSION: installs a tool from crates.io, in the dev profile because that builds three times as fast.
cargo_tool() {
  ! cargo "${1#cargo-}" --version >/dev/null 2>&1 || return 0
  say "installing $1 $2 from crates.io (a few minutes, once)"
  env -u CARGO_BUILD_BUILD_DIR -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 \
    cargo install --quiet --locked --debug --version "$2" "$1" || die "cargo install $1 failed: see its message above"
}

# --- what each target needs ------------------------------------------------------------------------------

# Prevents two runs at once, which would install and start things twice. The file descriptor holds the lock.
lock() {
  exec 9>"${TMPDIR:-/tmp}/coracle-setup-$(id -u).lock"
  have flock && flock 9
}

have cargo || [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH=$HOME/.cargo/bin:$PATH
case ${1:-help} in
  demo) lock; engine; images ;;
  demo-cluster) lock; engine; images; machines; kubectl_command ;;
  test) lock; engine; images; registry; kubectl_command; etcd_command; packet_filters; fake_clock; python_clients; browser; cargo_tool cargo-nextest $NEXTEST_VERSION ;;
  bench) lock; engine; images; peer ;;
  check) lock; rust_components; cargo_tool cargo-nextest $NEXTEST_VERSION; cargo_tool cargo-deny $DENY_VERSION ;;
  unit) lock; cargo_tool cargo-nextest $NEXTEST_VERSION ;;
  release) lock; cargo_tool cargo-cyclonedx $CYCLONEDX_VERSION ;;
  endpoint) find_engine || die "no Docker engine answers; run: hack/setup.sh demo"; echo "$ENDPOINT" ;;
  *) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; [ "${1:-help}" = help ] || exit 2 ;;
esac
