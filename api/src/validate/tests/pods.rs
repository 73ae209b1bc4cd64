//! Tests of Pods, one line per rule.

use super::{container, fields, spec, volume};

#[test]
fn containers_among_each_other() {
    spec("{}", &["containers: is required; add at least one container"]);
    spec(
        "{containers: [{name: a, image: i}, {name: a, image: i}], initContainers: [{name: a, image: i}]}",
        &[
            "containers[1].name: two containers are called `a`; use unique names",
            "initContainers[0].name: two containers are called `a`; use unique names",
        ],
    );
    spec(
        "{containers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 80}, {containerPort: 2, hostPort: 80, protocol: UDP}]}, {name: b, image: i, ports: [{containerPort: 3, hostPort: 80}]}]}",
        &["containers[1].ports[0].hostPort: two ports of this pod use host port 80 (TCP); choose another"],
    );
    spec(
        "{containers: [{name: a, image: i}], initContainers: [{name: i, image: i, livenessProbe: {exec: {command: [x]}}, lifecycle: {}}, {name: s, image: i, restartPolicy: Always, livenessProbe: {exec: {command: [x]}}}]}",
        &[
            "initContainers[0].lifecycle: only sidecars and main containers support it; remove it, or add `restartPolicy: Always` to make this a sidecar",
            "initContainers[0].livenessProbe: only sidecars and main containers support it; remove it, or add `restartPolicy: Always` to make this a sidecar",
        ],
    );
    fields(
        "ephemeralContainers: [{name: e, image: i}]",
        &[
            "ephemeralContainers: ephemeral containers can only be added to a running pod; remove it from the manifest",
        ],
    );
}

#[test]
fn one_container() {
    spec(
        "{containers: [{}]}",
        &[
            "containers[0].name: is required; add a name, such as `name: web`",
            "containers[0].image: is required; add an image, such as `image: nginx:1.27`",
        ],
    );
    spec(
        "{containers: [{name: My App, image: ' i', imagePullPolicy: always, terminationMessagePolicy: Logs}]}",
        &[
            "containers[0].name: `My App` is not a valid name: only lower case letters, digits and `-`, at most 63 of them; write `my-app`",
            "containers[0].image: the image begins or ends with a space; write `i`",
            "containers[0].imagePullPolicy: `always` is not one of Always, IfNotPresent, Never; did you mean `Always`?",
            "containers[0].terminationMessagePolicy: `Logs` is not one of File, FallbackToLogsOnError; write one of these",
        ],
    );
    container(
        "ports: [{containerPort: 0}, {containerPort: 70000, hostPort: -1}, {containerPort: 1, name: HTTP, protocol: tcp}, {containerPort: 2, name: a}, {containerPort: 3, name: a, hostIP: x}]",
        &[
            "ports[0].containerPort: is required; add the port that the container listens on",
            "ports[1].containerPort: 70000 is out of range; write a number from 1 to 65535",
            "ports[1].hostPort: -1 is out of range; write a number from 1 to 65535",
            "ports[2].name: `HTTP` is not a valid port name: at most 15 lower case letters, digits and single `-`, at least one letter; shorten it, such as `http` or `metrics`",
            "ports[2].protocol: `tcp` is not one of TCP, UDP, SCTP; did you mean `TCP`?",
            "ports[4].name: two ports are called `a`; use unique names",
            "ports[4].hostIP: `x` is not an IP address; write it like 10.0.0.1 or fd00::1",
        ],
    );
    container(
        "resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: cpu, restartPolicy: x}]",
        &[
            "resizePolicy[1].restartPolicy: `x` is not one of NotRequired, RestartContainer; write one of these",
            "resizePolicy[1].resourceName: `cpu` has two policies; keep one of them",
        ],
    );
}

#[test]
fn environment() {
    container(
        "env: [{name: ''}, {name: A=B, value: x}, {name: C, value: x, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: D, valueFrom: {}}, {name: E, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}}]",
        &[
            "env[0].name: is required; add the variable's name",
            "env[1].name: `A=B` is not a valid variable name: printable ASCII without `=`; use capital letters, digits and `_`",
            "env[2].valueFrom: `value` is set too; keep one of them",
            "env[3].valueFrom: is required; add fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef",
            "env[4].valueFrom: there are several sources; keep one of them",
        ],
    );
    container(
        "env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIp}}}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}, {name: C, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['a']\"}}}, {name: D, valueFrom: {fieldRef: {fieldPath: \"spec['a']\"}}}, {name: E, valueFrom: {fieldRef: {apiVersion: v2, fieldPath: ''}}}]",
        &[
            "env[0].valueFrom.fieldRef.fieldPath: `status.podIp` is not one of metadata.name, metadata.namespace, metadata.uid, spec.nodeName, spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP, status.podIPs; did you mean `status.podIP`?",
            "env[1].valueFrom.fieldRef.fieldPath: `metadata.labels` needs a key here; write metadata.labels['KEY']",
            "env[3].valueFrom.fieldRef.fieldPath: `spec` has no keys; only labels and annotations have keys: metadata.labels['KEY']",
            "env[4].valueFrom.fieldRef.apiVersion: `v2` is not one of v1; write `v1`",
            "env[4].valueFrom.fieldRef.fieldPath: is required; add the field, such as `status.podIP`",
        ],
    );
    container(
        "env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.gpu}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 2m}}}, {name: C, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}, {name: D, valueFrom: {configMapKeyRef: {name: '', key: a/b}}}]",
        &[
            "env[0].valueFrom.resourceFieldRef.resource: `limits.gpu` is not one of limits.cpu, limits.memory, limits.ephemeral-storage, requests.cpu, requests.memory, requests.ephemeral-storage; did you mean `limits.cpu`?",
            "env[1].valueFrom.resourceFieldRef.divisor: `2m` is not a divisor for limits.cpu; write 1 or 1m",
            "env[3].valueFrom.configMapKeyRef.name: is required; add the name of the object",
            "env[3].valueFrom.configMapKeyRef.key: `a/b` is not a valid key; use letters, digits, `-`, `_` and `.`",
        ],
    );
    container(
        "envFrom: [{}, {prefix: A_, configMapRef: {name: c}, secretRef: {name: s}}, {prefix: a=, configMapRef: {name: C}}]",
        &[
            "envFrom[0]: is required; add `configMapRef` or `secretRef`",
            "envFrom[1]: there are two sources; split it into two elements",
            "envFrom[2].prefix: `a=` is not a valid variable name: printable ASCII without `=`; use capital letters, digits and `_`",
            "envFrom[2].configMapRef.name: `C` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `c`",
        ],
    );
}

#[test]
fn mounts() {
    container(
        "volumeMounts: [{name: data, mountPath: /a, subPath: b/c}, {name: host, mountPath: /b, mountPropagation: HostToContainer}]",
        &[],
    );
    container(
        "volumeMounts: [{name: '', mountPath: ''}, {name: dta, mountPath: /a}, {name: data, mountPath: /a}]",
        &[
            "volumeMounts[0].name: is required; add the name of a volume",
            "volumeMounts[0].mountPath: is required; add where the volume appears in the container",
            "volumeMounts[1].name: there is no volume `dta`; did you mean `data`?",
            "volumeMounts[2].mountPath: two volumes are mounted at `/a`; mount each at its own path",
        ],
    );
    container(
        "volumeMounts: [{name: data, mountPath: /a, subPath: /x/../y, subPathExpr: ../z}, {name: data, mountPath: /b, mountPropagation: Bidirectional}, {name: data, mountPath: /c, recursiveReadOnly: Enabled, mountPropagation: HostToContainer}]",
        &[
            "volumeMounts[0].subPath: `/x/../y` must be a relative path; remove the `/` in front",
            "volumeMounts[0].subPath: `/x/../y` must not contain `..`; write the path out",
            "volumeMounts[0].subPathExpr: `../z` must not contain `..`; write the path out",
            "volumeMounts[0].subPathExpr: `subPath` is set too; keep one of them",
            "volumeMounts[1].mountPropagation: Bidirectional propagation requires a privileged container; add `securityContext.privileged: true`, or write HostToContainer",
            "volumeMounts[2].recursiveReadOnly: the volume is not mounted read-only; add `readOnly: true`",
            "volumeMounts[2].recursiveReadOnly: `mountPropagation` is set; remove `mountPropagation`",
        ],
    );
    container(
        "volumeDevices: [{name: data, devicePath: /dev/../x}]",
        &[
            "volumeDevices[0].devicePath: `/dev/../x` must not contain `..`; write the path out",
            "volumeDevices[0].name: only volumes of claims can be devices; mount it under `volumeMounts`",
        ],
    );
}

#[test]
fn probes_and_hooks() {
    container(
        "livenessProbe: {}, readinessProbe: {exec: {command: []}, tcpSocket: {port: 0}}, startupProbe: {httpGet: {port: '80', scheme: http, httpHeaders: [{name: 'a:', value: b}]}, successThreshold: 2, periodSeconds: -1}",
        &[
            "livenessProbe: is required; add what to do: exec, httpGet or tcpSocket",
            "readinessProbe.tcpSocket: there are several: exec, tcpSocket; keep one of them",
            "readinessProbe.exec.command: is required; add the command, as a list",
            "readinessProbe.tcpSocket.port: is required; add the port",
            "startupProbe.httpGet.port: \"80\" is a name here, not a number; remove the quotes: 80",
            "startupProbe.httpGet.scheme: `http` is not one of HTTP, HTTPS; did you mean `HTTP`?",
            "startupProbe.httpGet.httpHeaders[0].name: `a:` is not a valid header name; use letters, digits and `-`",
            "startupProbe.periodSeconds: -1 is negative; write 0 or more",
            "startupProbe.successThreshold: it must be 1 for a startupProbe; write 1, or remove it",
        ],
    );
    container(
        "readinessProbe: {grpc: {port: 99999, mode: tls}, terminationGracePeriodSeconds: 5, successThreshold: 3}, livenessProbe: {tcpSocket: {port: http}, terminationGracePeriodSeconds: 0}",
        &[
            "livenessProbe.terminationGracePeriodSeconds: it must be more than 0; write 1 or more, or remove it",
            "readinessProbe.grpc.port: 99999 is out of range; write a number from 1 to 65535",
            "readinessProbe.grpc.mode: `tls` is not one of Plaintext, TLS; did you mean `TLS`?",
            "readinessProbe.terminationGracePeriodSeconds: a readiness probe does not terminate containers; remove it",
        ],
    );
    container(
        "lifecycle: {preStop: {sleep: {seconds: 31}}, postStart: {httpGet: {port: HTTP}}}",
        &[
            "lifecycle.postStart.httpGet.port: `HTTP` is not a valid port name; write a number, or the name of one of the container's ports",
            "lifecycle.preStop.sleep.seconds: 31 s is longer than the grace period of 30 s; sleep less, or raise `spec.terminationGracePeriodSeconds`",
        ],
    );
}

#[test]
fn resources() {
    container(
        "resources: {limits: {cpu: 1, memory: 1Gi, example.com/gpu: 2, hugepages-2Mi: 4Mi}, requests: {cpu: 0.5}}",
        &[],
    );
    container(
        "resources: {limits: {cpu: 500m, memroy: 1Gi, example.com/gpu: 1500m}, requests: {cpu: 1, memory: -1, example.com/fpga: 1}}",
        &[
            "resources.limits[example.com/gpu]: 1500m is not whole; write a whole number",
            "resources.limits[memroy]: `memroy` is not a resource; did you mean `memory`?",
            "resources.requests[memory]: -1 is negative; write 0 or more",
            "resources.requests[cpu]: 1 is more than the limit of 500m; raise the limit, or request less",
            "resources.requests[example.com/fpga]: there is no limit; add the same limit for example.com/fpga",
        ],
    );
    container(
        "resources: {limits: {hugepages-2Mi: 3Mi}, claims: [{name: x}]}",
        &[
            "resources.limits[hugepages-2Mi]: 3Mi is not a multiple of 2Mi; write a multiple of the page's size",
            "resources: huge pages require cpu or memory too; add cpu or memory",
            "resources.claims[0].name: there is no claim `x`; add it under `spec.resourceClaims`",
        ],
    );
    spec(
        "{resources: {requests: {cpu: 1}}, containers: [{name: a, image: i, resources: {requests: {cpu: 2}}}]}",
        &["resources.requests[cpu]: the containers together request 2; request at least as much for the pod"],
    );
}

#[test]
fn restart_rules() {
    container(
        "restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]",
        &[],
    );
    container(
        "restartPolicyRules: [{action: Stop}, {action: Restart, exitCodes: {operator: Is, values: []}}]",
        &[
            "restartPolicy: is required; add the policy for when no rule matches: Always, OnFailure or Never",
            "restartPolicyRules[0].action: `Stop` is not one of Restart; write `Restart`",
            "restartPolicyRules[0].exitCodes: is required; add `exitCodes` with an operator and values",
            "restartPolicyRules[1].exitCodes.operator: `Is` is not one of In, NotIn; write one of these",
            "restartPolicyRules[1].exitCodes.values: is required; add at least one exit code",
        ],
    );
    container(
        "restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [1]}}]",
        &[
            "restartPolicyRules[0].action: RestartAllContainers is not supported; write `Restart`, which restarts this container alone",
        ],
    );
    container(
        "restartPolicy: Sometimes",
        &["restartPolicy: `Sometimes` is not one of Always, OnFailure, Never; write one of these"],
    );
}

#[test]
fn security() {
    container(
        "securityContext: {runAsUser: -1, runAsGroup: 3000000000, privileged: true, allowPrivilegeEscalation: false, procMount: Unmasked, capabilities: {add: [CAP_SYS_ADMIN]}, seccompProfile: {type: Localhost}, appArmorProfile: {type: RuntimeDefault, localhostProfile: x}}",
        &[
            "securityContext.runAsUser: -1 is out of range; write a number from 0 to 2147483647",
            "securityContext.runAsGroup: 3000000000 is out of range; write a number from 0 to 2147483647",
            "securityContext.procMount: it requires a separate user namespace; add `hostUsers: false` to the pod",
            "securityContext.seccompProfile.localhostProfile: is required; add the file of the profile",
            "securityContext.appArmorProfile.localhostProfile: only the type Localhost has a name; remove it, or write `type: Localhost`",
            "securityContext.allowPrivilegeEscalation: a privileged container has all privileges; remove it, or remove `privileged`",
            "securityContext.allowPrivilegeEscalation: CAP_SYS_ADMIN grants all privileges; remove it, or remove the capability",
        ],
    );
    fields(
        "hostPID: true, hostNetwork: true, shareProcessNamespace: true, hostUsers: false, securityContext: {fsGroup: -5, supplementalGroups: [1, -1], fsGroupChangePolicy: Never, sysctls: [{name: net.core.somaxconn, value: '1'}, {name: net/core/somaxconn, value: '1'}, {name: 'a b', value: ''}], seccompProfile: {type: Default}}",
        &[
            "hostNetwork: `hostUsers` is false; remove one of them",
            "hostPID: `hostUsers` is false; remove one of them",
            "shareProcessNamespace: the pod shares the host's processes already; remove it, or remove `hostPID`",
            "securityContext.fsGroup: -5 is out of range; write a number from 0 to 2147483647",
            "securityContext.supplementalGroups[1]: -1 is out of range; write a number from 0 to 2147483647",
            "securityContext.fsGroupChangePolicy: `Never` is not one of Always, OnRootMismatch; write one of these",
            "securityContext.sysctls[0].name: the pod uses the network of the host; remove it, or remove `hostNetwork`",
            "securityContext.sysctls[1].name: `net/core/somaxconn` is defined twice; keep one of them",
            "securityContext.sysctls[1].name: the pod uses the network of the host; remove it, or remove `hostNetwork`",
            "securityContext.sysctls[2].name: `a b` is not a kernel parameter; write it like net.core.somaxconn",
            "securityContext.seccompProfile.type: `Default` is not one of RuntimeDefault, Unconfined, Localhost; write one of these",
        ],
    );
}

#[test]
fn names_and_policies() {
    fields(
        "restartPolicy: onfailure, dnsPolicy: Cluster, activeDeadlineSeconds: 0, terminationGracePeriodSeconds: -1, hostname: a.b, subdomain: A, nodeName: n_1, serviceAccountName: x y, os: {name: mac}, nodeSelector: {'a b': c}, imagePullSecrets: [{name: A}], readinessGates: [{conditionType: ''}]",
        &[
            "restartPolicy: `onfailure` is not one of Always, OnFailure, Never; did you mean `OnFailure`?",
            "activeDeadlineSeconds: 0 is out of range; write a number from 1 to 2147483647",
            "terminationGracePeriodSeconds: -1 is negative; write 0 or more",
            "os.name: `mac` is not one of linux, windows; write one of these",
            "serviceAccountName: `x y` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `x-y`",
            "nodeName: `n_1` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `n-1`",
            "hostname: `a.b` is not a valid name: only lower case letters, digits and `-`, at most 63 of them; write `a-b`",
            "subdomain: `A` is not a valid name: only lower case letters, digits and `-`, at most 63 of them; write `a`",
            "nodeSelector[a b]: `a b` is not a valid key: letters, digits, `-`, `_` and `.`, at most 63, optionally with a prefix such as `example.com/`; begin and end it with a letter or digit, and use no other characters",
            "readinessGates[0].conditionType: `` is not a valid key: letters, digits, `-`, `_` and `.`, at most 63, optionally with a prefix such as `example.com/`; begin and end it with a letter or digit, and use no other characters",
            "imagePullSecrets[0].name: `A` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `a`",
            "dnsPolicy: `Cluster` is not one of ClusterFirst, ClusterFirstWithHostNet, Default, None; write one of these",
        ],
    );
    fields(
        "hostnameOverride: x, hostNetwork: true, setHostnameAsFQDN: true",
        &[
            "hostnameOverride: a pod with `hostNetwork` has the name of the host; remove it, or remove `hostNetwork`",
            "hostnameOverride: `setHostnameAsFQDN` is set too; remove one of them",
        ],
    );
}

#[test]
fn network() {
    fields(
        "dnsPolicy: None",
        &["dnsConfig.nameservers: is required; add a name server: `dnsPolicy: None` provides none"],
    );
    fields(
        "dnsConfig: {nameservers: [1.1.1.1, x, ::1, 2.2.2.2], searches: [., _tcp.a., 'a b'], options: [{value: '1'}]}, hostAliases: [{ip: localhost, hostnames: [a, B]}]",
        &[
            "dnsConfig.nameservers: there are 4; keep 3",
            "dnsConfig.nameservers[1]: `x` is not an IP address; write it like 10.0.0.1 or fd00::1",
            "dnsConfig.searches[2]: `a b` is not a domain; write it like svc.example.com",
            "dnsConfig.options[0].name: is required; add the option's name, such as `ndots`",
            "hostAliases[0].ip: `localhost` is not an IP address; write it like 10.0.0.1 or fd00::1",
            "hostAliases[0].hostnames[1]: `B` is not a valid name: only lower case letters, digits, `-` and `.`, at most 253 of them; write `b`",
        ],
    );
    spec(
        "{hostNetwork: true, containers: [{name: a, image: i, ports: [{containerPort: 80}, {containerPort: 81, hostPort: 82}]}]}",
        &[
            "containers[0].ports[1].hostPort: the pod is in the host's network, where the port is 81; remove it, or write the same number as `containerPort`",
        ],
    );
}

#[test]
fn volumes() {
    volume("emptyDir: {medium: Memory, sizeLimit: 1Gi}", &[]);
    volume("hostPath: {path: /x, type: Directory}", &[]);
    spec(
        "{volumes: [{name: a}, {name: a}, {emptyDir: {}}, {name: B}], containers: [{name: c, image: i}]}",
        &[
            "volumes[1].name: two volumes are called `a`; use unique names",
            "volumes[2].name: is required; add a name, such as `name: data`",
            "volumes[3].name: `B` is not a valid name: only lower case letters, digits and `-`, at most 63 of them; write `b`",
        ],
    );
    volume(
        "emptyDir: {medium: Ram, sizeLimit: -1}, hostPath: {path: /a/../b, type: Dir}",
        &[
            "hostPath: the volume is set to both emptyDir and hostPath; keep one of them, or make two volumes",
            "emptyDir.sizeLimit: it is negative; write 0 or more",
            "emptyDir.medium: `Ram` is not one of Memory, HugePages; write one of these",
            "hostPath.path: `/a/../b` must not contain `..`; write the path out",
            "hostPath.type: `Dir` is not one of DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice, BlockDevice; write one of these",
        ],
    );
    volume(
        "secret: {defaultMode: 644, items: [{key: '', path: /a}, {key: k, path: ..b, mode: 0o1000}]}",
        &[
            "secret.secretName: is required; add the name of a Secret",
            "secret.defaultMode: 644 is not a file mode: in octal it is 1204; write it in octal with a 0 in front, such as 0644, or in decimal up to 511",
            "secret.items[0].key: is required; add the key",
            "secret.items[0].path: `/a` must be a relative path; remove the `/` in front",
            "secret.items[1].path: `..b` must not begin with `..`; name it differently",
            "secret.items[1].mode: 512 is not a file mode: in octal it is 1000; write it in octal with a 0 in front, such as 0644, or in decimal up to 511",
        ],
    );
    volume("configMap: {}", &["configMap.name: is required; add the name of a ConfigMap"]);
    volume("persistentVolumeClaim: {}", &["persistentVolumeClaim.claimName: is required; add `claimName`"]);
    volume(
        "image: {pullPolicy: x}",
        &[
            "image.reference: is required; add an image",
            "image.pullPolicy: `x` is not one of Always, IfNotPresent, Never; write one of these",
        ],
    );
}

#[test]
fn projected_volumes() {
    volume(
        "downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: cpu, resourceFieldRef: {resource: limits.cpu}}, {path: ip, fieldRef: {fieldPath: status.podIP}}, {path: x}]}",
        &[
            "downwardAPI.items[1].resourceFieldRef.containerName: is required; add the name of the container",
            "downwardAPI.items[2].fieldRef.fieldPath: `status.podIP` is not one of metadata.name, metadata.namespace, metadata.labels, metadata.annotations, metadata.uid; write one of these",
            "downwardAPI.items[3]: is required; add fieldRef or resourceFieldRef",
        ],
    );
    volume(
        "projected: {sources: [{}, {secret: {name: s, items: [{key: k, path: p}]}, configMap: {}}, {configMap: {name: c, items: [{key: k, path: p}]}}, {serviceAccountToken: {path: t, expirationSeconds: 5}}]}",
        &[
            "projected.sources[0]: is required; add secret, configMap or downwardAPI",
            "projected.sources[1]: there are several sources in one; make an element of each",
            "projected.sources[1].configMap.name: is required; add the name of a ConfigMap",
            "projected.sources[2]: two sources write the file `p`; give each its own path",
            "projected.sources[3].serviceAccountToken.expirationSeconds: 5 is out of range; write a number from 600 to 4294967296",
            "projected.sources[3].serviceAccountToken: the pod has no service account; in a manifest of a node mount a Secret instead; in a cluster add `spec.serviceAccountName`",
        ],
    );
}

#[test]
fn scheduling() {
    fields(
        "tolerations: [{}, {key: a, operator: Exists, value: b}, {key: a, operator: Has}, {key: a, tolerationSeconds: 5}, {operator: Exists}, {key: a, effect: NoRun}]",
        &[
            "tolerations[0].operator: there is no key; add a key, or write `operator: Exists` for every taint",
            "tolerations[1].value: Exists takes no value; remove it, or write `operator: Equal`",
            "tolerations[2].operator: `Has` is not one of Equal, Exists, Gt, Lt; write one of these",
            "tolerations[3].effect: `tolerationSeconds` requires the effect NoExecute; write `effect: NoExecute`, or remove the seconds",
            "tolerations[5].effect: `NoRun` is not one of NoSchedule, PreferNoSchedule, NoExecute; write one of these",
        ],
    );
    fields(
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}, {key: a, operator: Exists, values: [x]}, {key: a, operator: Gt, values: []}], matchFields: [{key: metadata.uid, operator: In, values: []}]}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}",
        &[
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: is required; add at least one value",
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values: Exists takes no value; remove the values, or write `operator: In`",
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[2].values: is required; write exactly one number",
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: `metadata.uid` is not one of metadata.name; did you mean `metadata.name`?",
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values: is required; write exactly one name of a node",
            "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: 0 is out of range; write a number from 1 to 100",
        ],
    );
    fields(
        "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: '', matchLabelKeys: [a], namespaces: [A]}]}, podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: 'x y'}}}}]}}",
        &[
            "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[0]: `A` is not a valid name: only lower case letters, digits and `-`, at most 63 of them; write `a`",
            "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: there is no `labelSelector`; add one, or remove the keys",
            "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: is required; add it, such as kubernetes.io/hostname",
            "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: 101 is out of range; write a number from 1 to 100",
            "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector.matchLabels[a]: `x y` is not a valid label value: letters, digits, `-`, `_` and `.`, at most 63; shorten it, or put it into an annotation",
        ],
    );
    fields(
        "topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: Wait}, {maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 1}, {maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, nodeTaintsPolicy: x}]",
        &[
            "topologySpreadConstraints[0].maxSkew: 0 is out of range; write a number from 1 to 2147483647",
            "topologySpreadConstraints[0].whenUnsatisfiable: `Wait` is not one of DoNotSchedule, ScheduleAnyway; write one of these",
            "topologySpreadConstraints[1].minDomains: it requires `whenUnsatisfiable: DoNotSchedule`; remove one of them",
            "topologySpreadConstraints[2].nodeTaintsPolicy: `x` is not one of Honor, Ignore; write one of these",
            "topologySpreadConstraints[2]: another constraint has the same `topologyKey` and `whenUnsatisfiable`; keep one of them",
        ],
    );
    fields(
        "nodeName: one, schedulingGates: [{name: a}, {name: a}]",
        &[
            "schedulingGates[1].name: the gate `a` is defined twice; keep one of them",
            "nodeName: the pod has scheduling gates; remove it, or remove the gates",
        ],
    );
    fields(
        "resourceClaims: [{name: a}, {name: a, resourceClaimName: x, resourceClaimTemplateName: z}]",
        &[
            "resourceClaims[0]: is required; add resourceClaimName or resourceClaimTemplateName",
            "resourceClaims[1].name: two claims are called `a`; use unique names",
            "resourceClaims[1]: a claim and a template are both set; keep one of them",
        ],
    );
}
