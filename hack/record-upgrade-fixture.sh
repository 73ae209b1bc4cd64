#!/usr/bin/env bash
# Records the state that an earlier version leaves behind, for the upgrade test. tests/fixtures/upgrade/README.md explains it.
#
#   hack/record-upgrade-fixture.sh PROGRAMS OUTPUT
#
# PROGRAMS is a directory with the `kubelet` and `master` of the earlier version. OUTPUT gets embedded.tar.gz and
# etcd.tar.gz. Needs root, a Docker engine with coracle/busybox:1 (`hack/setup.sh test`), kubectl, etcd and python3.
set -euo pipefail
PROGRAMS=$(realpath "$1")
OUTPUT=$(realpath "$2")
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ETCD=$(command -v etcd || echo "$ROOT/target/setup/etcd-server/usr/bin/etcd")
IMAGE=coracle/busybox:1
# Ten years, which is the lifetime of the CA, so that the test can use the recorded certificates for as long.
LIFETIME=87600h
# The test takes these ports and this directory for placeholders.
MASTER_PORT=39443 KUBELET_PORT=39250 HEALTHZ_PORT=39248 ETCD_PORT=39379
PIDS=()

finish() {
  local pid
  for pid in "${PIDS[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
  PIDS=()
  docker ps -aq --filter "label=io.kubernetes.node.name=${NODE:-none}" | xargs -r docker rm -f >/dev/null
  [ -z "${NODE:-}" ] || remove_network
  awk -v under="${DIR:-/nowhere}/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | tac | xargs -r -n1 umount -l
}
trap finish EXIT

stop() { kill -TERM "$1"; wait "$1" || true; }

# await TRIES COMMAND...: runs the command each second until it succeeds.
await() {
  local tries=$1; shift
  while ! "$@" >/dev/null 2>&1; do
    ((tries--)) || { echo "timeout: $*" >&2; tail -5 "$DIR"/*.log >&2; exit 1; }
    sleep 1
  done
}

kube() { kubectl --kubeconfig "$DIR/master/admin.kubeconfig" --cache-dir "$DIR/cache" "$@"; }
node() { "$PROGRAMS/kubelet" "$1" --root-dir "$DIR/root" "${@:2}"; }

static_pods() {
  cat >"$DIR/manifests/web.yaml" <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: page, namespace: default}
data: {index.html: "hello\n"}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}, annotations: {example.com/owner: someone}}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - {name: prepare, image: '$IMAGE', command: [sh, -c, 'echo prepared >/scratch/file'], volumeMounts: [{name: work, mountPath: /scratch}]}
  - {name: side, image: '$IMAGE', restartPolicy: Always, command: [sh, -c, "trap 'exit 0' TERM; sleep 1000000 & wait"]}
  containers:
  - name: main
    image: $IMAGE
    command: [sh, -c, "httpd -f -p 8080 -h /page & trap 'exit 0' TERM; wait"]
    env: [{name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}, {name: PLAIN, value: text}]
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
    securityContext: {capabilities: {drop: [NET_RAW]}}
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
    volumeMounts: [{name: page, mountPath: /page}, {name: work, mountPath: /scratch}]
  volumes:
  - {name: page, configMap: {name: page}}
  - {name: work, emptyDir: {}}
YAML
  cat >"$DIR/manifests/restarted.yaml" <<YAML
apiVersion: v1
kind: Pod
metadata: {name: restarted}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: $IMAGE
    command: [sh, -c, "[ -e /scratch/ran ] || { touch /scratch/ran; echo first run >/dev/termination-log; exit 3; }; trap 'exit 0' TERM; sleep 1000000 & wait"]
    volumeMounts: [{name: work, mountPath: /scratch}]
  volumes:
  - {name: work, emptyDir: {}}
YAML
  cat >"$DIR/manifests/job.yaml" <<YAML
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 2
  containers: [{name: main, image: '$IMAGE', command: [sh, -c, 'echo done >/dev/termination-log']}]
YAML
}

objects() {
  cat <<YAML
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: team}
stringData: {word: secret}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: team}
spec: {selector: {app: assigned}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: limits, namespace: team}
spec: {hard: {pods: "10"}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: team}
spec: {minAvailable: 1, selector: {matchLabels: {app: assigned}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: team}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle, namespace: team}
spec: {replicas: 0, selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: main, image: '$IMAGE'}]}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: assigned, namespace: team, labels: {app: assigned}, finalizers: [example.com/hold]}
spec:
  nodeName: $NODE
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: $IMAGE
    command: [sh, -c, "trap 'exit 0' TERM; sleep 1000000 & wait"]
    envFrom: [{configMapRef: {name: settings}}]
    ports: [{containerPort: 8080}]
    volumeMounts: [{name: secret, mountPath: /secret}]
  volumes:
  - {name: secret, secret: {secretName: password}}
YAML
}

is_ready() { [ "$(node get pods "$1-$NODE" -o json | python3 -c 'import json, sys
print([c["status"] for c in json.load(sys.stdin)["status"]["conditions"] if c["type"] == "Ready"][0])')" = True ]; }
is_done() { node get pods "job-$NODE" -o json | grep -q '"phase": *"Succeeded"'; }
has_no_job_sandbox() { ! docker ps -a --filter "label=io.kubernetes.node.name=$NODE" --format '{{.Names}}' | grep -q k8s_POD_job; }
is_assigned_ready() { kube get pod assigned --namespace team -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}' | grep True; }

# The containers of the node, as bodies of `POST /containers/create`, sandboxes first.
containers() {
  docker ps -aq --filter "label=io.kubernetes.node.name=$NODE" --no-trunc | xargs docker inspect | python3 -c '
import json, sys
found = []
for one in json.load(sys.stdin):
    body = dict(one["Config"], HostConfig=one["HostConfig"])
    found.append({"id": one["Id"], "name": one["Name"].lstrip("/"), "running": one["State"]["Running"],
                  "exitCode": one["State"]["ExitCode"], "body": body})
found.sort(key=lambda one: (not one["name"].startswith("k8s_POD_"), one["name"]))
json.dump(found, sys.stdout, indent=1)'
}

# Everything that the master stores. The test asks for the same resources.
resources() {
  kube api-resources --verbs=list,create --output name | grep -v '^events.events' | sort | paste -sd,
}

# Removes the network of the node.
remove_network() {
  local link
  for link in $(grep -lxF "pods of node $NODE" /sys/class/net/coracle-*/ifalias 2>/dev/null | cut -d/ -f5); do
    ip link delete "$link"
    nft list tables | grep -F " $link" | while read -r _ family table; do nft delete table "$family" "$table"; done || true
  done
}

record() {
  local storage=$1 flags=() etcd= master kubelet line
  NODE=upgrade-$storage
  DIR=/tmp/coracle-upgrade-$storage
  rm -rf "$DIR"
  mkdir -p "$DIR/manifests"
  if [ "$storage" = etcd ]; then
    "$ETCD" --data-dir "$DIR/etcd" --listen-client-urls "http://127.0.0.1:$ETCD_PORT" --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" \
      --listen-peer-urls "http://127.0.0.1:$((ETCD_PORT + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((ETCD_PORT + 1))" \
      --initial-cluster "default=http://127.0.0.1:$((ETCD_PORT + 1))" >"$DIR/etcd.log" 2>&1 &
    etcd=$!
    PIDS+=("$etcd")
    flags=(--storage etcd --etcd-servers "http://127.0.0.1:$ETCD_PORT")
  fi
  "$PROGRAMS/master" --data-dir "$DIR/master" --secure-port "$MASTER_PORT" --advertise-address 127.0.0.1 --scheduler=false \
    --csr-approval-policy=insecure-always-approve --cluster-signing-duration "$LIFETIME" --cluster-cidr "$2" "${flags[@]}" >"$DIR/master.log" 2>&1 &
  master=$!
  PIDS+=("$master")
  await 60 kube get serviceaccount default
  line=$("$PROGRAMS/master" --data-dir "$DIR/master" join-string)
  static_pods
  "$PROGRAMS/kubelet" run --pod-manifest-path "$DIR/manifests" --root-dir "$DIR/root" --hostname-override "$NODE" --node-ip 127.0.0.1 \
    --port "$KUBELET_PORT" --healthz-port "$HEALTHZ_PORT" --pod-network native --bootstrap "https://127.0.0.1:$MASTER_PORT#${line#*#}" >"$DIR/kubelet.log" 2>&1 &
  kubelet=$!
  PIDS+=("$kubelet")
  await 60 kube get node "$NODE"
  objects >"$DIR/objects.yaml"
  kube apply --filename "$DIR/objects.yaml"
  printf 'apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one, namespace: team}\nspec: {size: 3}\n' >"$DIR/widget.yaml"
  await 30 kube apply --filename "$DIR/widget.yaml"
  await 90 is_ready web
  await 90 is_ready restarted
  await 90 is_done
  await 90 has_no_job_sandbox
  await 90 is_assigned_ready
  # The kubelet writes checkpoints when a pod is idle, and events within ten seconds.
  sleep 15
  node get pods -A -o json >"$DIR/pods.json"
  node get events -A -o json >"$DIR/events.json"
  containers >"$DIR/containers.json"
  stop "$kubelet"
  resources >"$DIR/resources"
  kube get "$(cat "$DIR/resources")" --all-namespaces --output json >"$DIR/served.json"
  stop "$master"
  [ -z "$etcd" ] || stop "$etcd"
  awk -v under="$DIR/root/" '$0 ~ / - tmpfs / && index($5, under) == 1 { print substr($5, length(under) - 4) }' /proc/self/mountinfo >"$DIR/tmpfs"
  docker image inspect --format '{{.Id}}' "$IMAGE" >"$DIR/image"
  echo "$2" >"$DIR/cluster-cidr"
  (cd "$DIR" && rm -rf cache root/kubelet.sock && tar --sort=name --sparse --numeric-owner -c root manifests master containers.json pods.json events.json served.json resources tmpfs image cluster-cidr \
    $([ -z "$etcd" ] || echo etcd) | gzip -9n) >"$OUTPUT/$storage.tar.gz"
  finish
}

record embedded 10.199.64.0/20
record etcd 10.199.80.0/20
ls -l "$OUTPUT"
