//! Output of `describe pod`.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::page;

#[test]
fn describe_shows_a_crashing_pod() {
    let pod = json!({
        "metadata": {"name": "web-n1", "namespace": "shop", "labels": {"b": "2", "a": "1"}},
        "spec": {
            "nodeName": "n1",
            "containers": [{
                "name": "c", "image": "i:1", "command": ["sh", "-c", "one\ntwo"],
                "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "protocol": "UDP"}],
                "resources": {"limits": {"memory": "64Mi", "cpu": "1"}},
                "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 5},
                "env": [
                    {"name": "PLAIN", "value": "x"},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m", "optional": true}}],
                "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true, "subPath": "a"}],
            }],
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.2", "podIPs": [{"ip": "10.1.0.2"}],
            "startTime": "2026-01-01T00:00:00Z", "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{
                "name": "c", "image": "i:1", "imageID": "docker://sha256:1", "containerID": "docker://2",
                "ready": false, "restartCount": 4,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-01-01T00:00:01Z",
                              "finishedAt": "2026-01-01T00:00:02Z"}},
            }],
        },
    });
    let events = json!({"items": [
        {"type": "Warning", "reason": "BackOff", "count": 3, "firstTimestamp": "2026-01-01T00:01:00Z",
         "lastTimestamp": "2026-01-01T00:04:00Z", "source": {"component": "kubelet"}, "message": "Back-off\n"},
        {"type": "Normal", "reason": "Pulled", "count": 1, "firstTimestamp": "2026-01-01T00:00:30Z",
         "lastTimestamp": "2026-01-01T00:00:30Z", "source": {"component": "kubelet"}, "message": "Got it"},
    ]});
    let expected = r#"Name:             web-n1
Namespace:        shop
Service Account:  default
Node:             n1/10.0.0.1
Start Time:       Thu, 01 Jan 2026 00:00:00 +0000
Labels:           a=1
                  b=2
Annotations:      <none>
Status:           Running
IP:               10.1.0.2
IPs:
  IP:  10.1.0.2
Containers:
  c:
    Container ID:  docker://2
    Image:         i:1
    Image ID:      docker://sha256:1
    Ports:         80/TCP, 53/UDP
    Host Ports:    8080/TCP, 0/UDP
    Command:
      sh
      -c
      one
      two
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Thu, 01 Jan 2026 00:00:01 +0000
      Finished:     Thu, 01 Jan 2026 00:00:02 +0000
    Ready:          False
    Restart Count:  4
    Limits:
      cpu:      1
      memory:   64Mi
    Readiness:  exec [true] delay=0s timeout=1s period=5s #success=1 #failure=3
    Environment Variables from:
      m  ConfigMap with prefix 'P_'  Optional: true
    Environment:
      PLAIN:  x
      KEY:    <set to the key 'k' in secret 's'>  Optional: false
      IP:      (v1:status.podIP)
    Mounts:
      /v from v (ro,path="a")
Conditions:
  Type   Status
  Ready  False
Volumes:
  v:
    Type:        Secret (a volume populated by a Secret)
    SecretName:  s
    Optional:    false
QoS Class:       Burstable
Node-Selectors:  <none>
Tolerations:     :NoExecute op=Exists
Events:
  Type      Reason    Age                From      Message
  ----      ------    ----               ----      -------
  Normal    Pulled    4m30s              kubelet   Got it
  Warning   BackOff   60s (x3 over 4m)   kubelet   Back-off
"#;
    let found = page(&pod, &events, "2026-01-01T00:05:00Z".parse().unwrap());
    let found: Vec<&str> = found.lines().collect();
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(found, expected);
}
