#!/usr/bin/env bash
# A lone node that runs examples/standalone/ until Ctrl-C, then takes everything down again.
# With ONCE=1 it ends by itself as soon as every pod is Ready and the web page has answered.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NODE=demo
STATE=/tmp/coracle-demo            # short, because the path of a Unix socket ends at 107 bytes
MANIFESTS=$STATE/manifests         # a copy: edit these while the demo runs
READY_SECONDS=120                  # a cold engine on a busy machine; a warm one needs about five
GONE_SECONDS=60
KUBELET=${CARGO_TARGET_DIR:-target}/debug/kubelet

say() { echo "demo: $*"; }
die() { echo "demo: $*" >&2; exit 1; }

# A kubelet mounts volumes and changes owners, so it runs as root.
SUDO=
[ "$(id -u)" = 0 ] || SUDO="sudo -E"

kubelet() { $SUDO "$KUBELET" "$@" --root-dir "$STATE/root"; }
containers() { $SUDO docker ps --all --quiet --filter "label=io.kubernetes.node.name=$NODE" 2>/dev/null || true; }
alive() { [ -n "${PID:-}" ] && [ -d "/proc/$PID" ]; }

# wait_until SECONDS COMMAND: 0 as soon as the command succeeds, 1 when the time is up.
wait_until() {
  local deadline=$((SECONDS + $1)); shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.2
  done
}

set_up() {
  hack/setup.sh demo
  DOCKER_HOST=$(hack/setup.sh endpoint)
  export DOCKER_HOST
  say "building the kubelet"
  cargo build --package kubelet --locked
  # A demo that was killed leaves its pods running; this one takes them over, and its manifests decide.
  ! kubelet get pods >/dev/null 2>&1 || die "a demo already runs on this machine: end that one first"
  # Whoever owns the directory decides what a kubelet that is root runs.
  mkdir -m 700 "$STATE" 2>/dev/null || [ -O "$STATE" ] || die "$STATE belongs to somebody else: remove it first"
  rm -rf "$MANIFESTS" && mkdir -p "$MANIFESTS"
  cp examples/standalone/* "$MANIFESTS"
  free_port 8080 "$MANIFESTS/web.yaml"
  free_port 8081 "$MANIFESTS/from-2014.json"
}

taken() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port PORT FILE: where somebody else has the port, the copy of the example takes the next free one.
free_port() {
  local port=$1
  while taken "$port"; do port=$((port + 10)); done
  [ "$port" = "$1" ] || { say "port $1 is taken, using $port"; sed -i "s/\(hostPort\"\?: \)$1/\1$port/" "$2"; }
}

start() {
  say "starting a kubelet: node $NODE, manifests in $MANIFESTS, log in $STATE/kubelet.log"
  # A session of its own, so that Ctrl-C reaches this script alone and the kubelet can still take its pods down. Its own
  # process number, because sudo passes no signal on that comes from its own process group.
  $SUDO setsid sh -c 'echo $$ >"$0"; exec "$@"' "$STATE/pid" "$KUBELET" run --root-dir "$STATE/root" --pod-manifest-path "$MANIFESTS" --hostname-override "$NODE" \
    --docker-endpoint "$DOCKER_HOST" --port 0 --healthz-port 0 >"$STATE/kubelet.log" 2>&1 </dev/null &
  PID=$!
}

# Prints the table of pods whenever it changes; succeeds when every pod of the directory is Ready or Completed.
all_ready() {
  alive || die "the kubelet ended; its log: $(tail -n 5 "$STATE/kubelet.log")"
  local table
  table=$(kubelet get pods 2>/dev/null) || return 1
  # The age changes all the time, the rest only when something happens.
  if [ "$(awk '{ $NF = ""; print }' <<<"$table")" != "${SHOWN:-}" ]; then
    SHOWN=$(awk '{ $NF = ""; print }' <<<"$table")
    printf '\n%s\n' "$table"
  fi
  awk -v want="$(find "$MANIFESTS" -type f | wc -l)" '
    NR > 1 { split($2, ready, "/"); if ($3 == "Completed" || ($3 == "Running" && ready[1] == ready[2])) fine++ }
    END { exit fine != want }' <<<"$table"
}

fetch() {
  local port
  port=$(sed -n 's/.*hostPort"\?: \([0-9]*\).*/\1/p' "$MANIFESTS/web.yaml")
  URL=http://127.0.0.1:$port/
  PAGE=$({ exec 3<>"/dev/tcp/127.0.0.1/$port" && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && cat <&3; } 2>/dev/null) || return 1
  grep -q '200 OK' <<<"$PAGE"
}

look_around() {
  local command="${SUDO:+sudo }$KUBELET"
  cat <<END

Every pod is Ready. Look around from another terminal:
  curl $URL
  $command get pods --root-dir $STATE/root
  $command describe pod web-$NODE --root-dir $STATE/root
  $command logs shop-$NODE -f --root-dir $STATE/root
Change, add or remove a file in $MANIFESTS and watch the pods follow. Ctrl-C takes everything down.
END
}

tear_down() {
  trap - EXIT INT TERM
  [ -d "$STATE" ] || return 0
  say "taking the pods down"
  if alive; then
    rm -f "$MANIFESTS"/*
    wait_until $GONE_SECONDS gone || say "the kubelet left pods behind; removing their containers"
    # The shell's own: a small Debian has no kill command.
    $SUDO sh -c 'kill -TERM "$1"' -- "$(cat "$STATE/pid")" 2>/dev/null || true
    wait "$PID" 2>/dev/null || true
  fi
  local left
  left=$(containers)
  [ -z "$left" ] || $SUDO docker rm --force --volumes $left >/dev/null
  awk -v under="$STATE/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r $SUDO umount
  $SUDO rm -rf "$STATE"
}

# No pod and no container left, or no kubelet to ask.
gone() { ! alive || { [ -z "$(kubelet get pods --output name 2>/dev/null)" ] && [ -z "$(containers)" ]; }; }

set_up
trap tear_down EXIT
trap 'exit 130' INT TERM
start
wait_until $READY_SECONDS all_ready || die "not every pod became Ready within $READY_SECONDS s; the kubelet's log: $(tail -n 5 "$STATE/kubelet.log")"
wait_until 10 fetch || die "the example web page did not answer at $URL"
printf '\nThe example web page, %s:\n  %s\n' "$URL" "$(tail -n 1 <<<"$PAGE")"
[ -z "${ONCE:-}" ] || { say "everything became Ready"; exit 0; }
look_around
trap 'exit 0' INT TERM
wait "$PID" || die "the kubelet ended; its log: $(tail -n 5 "$STATE/kubelet.log")"
