#!/usr/bin/env bash
# Runs a lone node with examples/standalone/ until Ctrl-C, then removes everything.
# With ONCE=1 it ends by itself when every pod is Ready and the web page has answered.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NODE=demo
STATE=/tmp/coracle-demo            # short, because a Unix socket path has at most 107 bytes
MANIFESTS=$STATE/manifests         # a copy: edit these while the demo runs
READY_SECONDS=120                  # a cold engine on a busy machine; a warm one needs about five
GONE_SECONDS=60
KUBELET=${CARGO_TARGET_DIR:-target}/debug/kubelet

say() { echo "demo: $*"; }
die() { echo "demo: $*" >&2; exit 1; }

# A kubelet needs root to mount volumes and to change file owners.
SUDO=
[ "$(id -u)" = 0 ] || SUDO="sudo -E"

kubelet() { $SUDO "$KUBELET" "$@" --root-dir "$STATE/root"; }
containers() { $SUDO docker ps --all --quiet --filter "label=io.kubernetes.node.name=$NODE" 2>/dev/null || true; }
alive() { [ -n "${PID:-}" ] && [ -d "/proc/$PID" ]; }

# wait_until SECONDS COMMAND: returns 0 as soon as the command succeeds, 1 after the timeout.
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
  # The pods of a killed demo still run. This demo adopts them and applies its own manifests.
  ! kubelet get pods >/dev/null 2>&1 || die "another demo already runs on this machine: stop it first"
  # The owner of this directory decides what a kubelet with root permissions runs.
  mkdir -m 700 "$STATE" 2>/dev/null || [ -O "$STATE" ] || die "$STATE belongs to another user: remove it first"
  rm -rf "$MANIFESTS" && mkdir -p "$MANIFESTS"
  cp examples/standalone/* "$MANIFESTS"
  free_port 8080 "$MANIFESTS/web.yaml"
  free_port 8081 "$MANIFESTS/from-2014.json"
}

taken() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port PORT FILE: if the port is in use, changes the copy of the example to a free one.
free_port() {
  local port=$1
  while taken "$port"; do port=$((port + 10)); done
  [ "$port" = "$1" ] || { say "port $1 is in use; the example uses $port"; sed -i "s/\(hostPort\"\?: \)$1/\1$port/" "$2"; }
}

start() {
  say "starting a kubelet: node $NODE, manifests in $MANIFESTS, log in $STATE/kubelet.log"
  # setsid: Ctrl-C must reach only this script, so that the kubelet can still stop its pods. The shell writes its process id, because
  # sudo does not forward signals from its own process group.
  $SUDO setsid sh -c 'echo $$ >"$0"; exec "$@"' "$STATE/pid" "$KUBELET" run --root-dir "$STATE/root" --pod-manifest-path "$MANIFESTS" --hostname-override "$NODE" \
    --docker-endpoint "$DOCKER_HOST" --port 0 --healthz-port 0 >"$STATE/kubelet.log" 2>&1 </dev/null &
  PID=$!
}

# Prints the table of pods whenever it changes; succeeds when every pod of the directory is Ready or Completed.
all_ready() {
  alive || die "the kubelet has exited; the end of its log: $(tail -n 5 "$STATE/kubelet.log")"
  local table
  table=$(kubelet get pods 2>/dev/null) || return 1
  # Compare without the age, which always changes.
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
  local command="${SUDO:+sudo -E }$KUBELET"
  cat <<END

Every pod is Ready. Look around from another terminal:
  export KUBELET_ROOT_DIR=$STATE/root
  curl $URL
  $command get pods
  $command describe pod web-$NODE
  $command logs shop-$NODE -f
Change, add or remove a file in $MANIFESTS and watch the pods follow. Ctrl-C takes everything down.
END
}

# Misspells a field of the web page's manifest. The pod keeps running, and the kubelet reports the mistake with its position and remedy.
break_a_file() {
  say "misspelling a field in $MANIFESTS/web.yaml, as an edit might: image -> imag"
  sed -i 's/ image:/ imag:/' "$MANIFESTS/web.yaml"
  wait_until 10 shows_warning || die "no warning of the broken file"
  printf '\n%s\n\n' "$WARNED"
  fetch || die "the web page did not survive the broken file"
  say "the page still answers at $URL: the last good version of the pod keeps running. Correct the file to clear the warning:"
  echo "  sed -i 's/ imag:/ image:/' $MANIFESTS/web.yaml"
}

shows_warning() {
  WARNED=$(kubelet get pods 2>&1)
  grep -q 'warning:.*imag' <<<"$WARNED" && grep -q InvalidManifest <<<"$WARNED"
}

tear_down() {
  trap - EXIT INT TERM
  [ -d "$STATE" ] || return 0
  say "stopping the pods"
  if alive; then
    rm -f "$MANIFESTS"/*
    wait_until $GONE_SECONDS gone || say "some pods did not end; removing their containers"
    # The builtin of the shell: a minimal Debian has no kill command.
    $SUDO sh -c 'kill -TERM "$1"' -- "$(cat "$STATE/pid")" 2>/dev/null || true
    wait "$PID" 2>/dev/null || true
  fi
  local left
  left=$(containers)
  [ -z "$left" ] || $SUDO docker rm --force --volumes $left >/dev/null
  awk -v under="$STATE/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r $SUDO umount
  $SUDO rm -rf "$STATE"
}

# Succeeds when no pod and no container is left, or the kubelet does not run.
gone() { ! alive || { [ -z "$(kubelet get pods --output name 2>/dev/null)" ] && [ -z "$(containers)" ]; }; }

set_up
trap tear_down EXIT
trap 'exit 130' INT TERM
start
wait_until $READY_SECONDS all_ready || die "not every pod became Ready within $READY_SECONDS s; the end of the log of the kubelet: $(tail -n 5 "$STATE/kubelet.log")"
wait_until 10 fetch || die "the example web page does not answer at $URL"
printf '\nThe example web page, %s:\n  %s\n' "$URL" "$(tail -n 1 <<<"$PAGE")"
[ -z "${ONCE:-}" ] || { say "everything became Ready"; exit 0; }
break_a_file
look_around
trap 'exit 0' INT TERM
wait "$PID" || die "the kubelet has exited; the end of its log: $(tail -n 5 "$STATE/kubelet.log")"
