//! Valid requests that the tests damage: they create and change objects of kinds with different validation.

/// A valid request.
#[derive(Clone, Copy, Debug)]
pub struct Seed {
    pub method: &'static str,
    pub path: &'static str,
    pub media_type: &'static str,
    pub body: &'static str,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

const fn post(path: &'static str, body: &'static str) -> Seed {
    Seed { method: "POST", path, media_type: JSON, body }
}

const fn patch(path: &'static str, media_type: &'static str, body: &'static str) -> Seed {
    Seed { method: "PATCH", path, media_type, body }
}

const POD: &str = "/api/v1/namespaces/default/pods/web";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Requests that create objects. In this order, each succeeds once, and the changes find their objects.
pub const OBJECTS: &[Seed] = &[
    post("/api/v1/namespaces/default/serviceaccounts", r#"{"metadata":{"name":"default"}}"#),
    post(
        "/api/v1/namespaces/default/configmaps",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"web"},"annotations":{"x/y":"z"}},"data":{"k":"v"},"binaryData":{"b":"AAE="}}"#,
    ),
    post(
        "/api/v1/namespaces/default/pods",
        r#"{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"nginx:1","ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"A","value":"b"},{"name":"C","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"memory":"1Gi"}},"livenessProbe":{"httpGet":{"path":"/","port":"http"},"periodSeconds":5},"volumeMounts":[{"name":"v","mountPath":"/v","subPath":"s"}]}],"initContainers":[{"name":"init","image":"busybox","restartPolicy":"Always"}],"volumes":[{"name":"v","configMap":{"name":"a","items":[{"key":"k","path":"p"}]}}],"tolerations":[{"key":"k","operator":"Exists"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}]}}},"securityContext":{"runAsUser":1000,"seccompProfile":{"type":"RuntimeDefault"}}}}"#,
    ),
    post(
        "/apis/apps/v1/namespaces/default/deployments",
        r#"{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"nginx"},{"name":"side","image":"busybox"}]}}}}"#,
    ),
    post(
        "/apis/apps/v1/namespaces/default/statefulsets",
        r#"{"metadata":{"name":"db"},"spec":{"serviceName":"db","selector":{"matchLabels":{"app":"db"}},"template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"main","image":"db"}]}},"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}"#,
    ),
    post(
        "/api/v1/namespaces/default/services",
        r#"{"metadata":{"name":"web"},"spec":{"type":"NodePort","selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":"http","nodePort":30080}]}}"#,
    ),
    post(
        "/apis/batch/v1/namespaces/default/cronjobs",
        r#"{"metadata":{"name":"tick"},"spec":{"schedule":"*/5 * * * *","timeZone":"Etc/UTC","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"busybox"}]}}}}}}"#,
    ),
    post(
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        r#"{"metadata":{"name":"web"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"minReplicas":1,"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}"#,
    ),
    post(
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        r#"{"metadata":{"name":"deny"},"spec":{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}],"ports":[{"port":80,"endPort":90}]}],"policyTypes":["Ingress"]}}"#,
    ),
    post(
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        r#"{"metadata":{"name":"web"},"spec":{"rules":[{"host":"a.example","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"web","port":{"number":80}}}}]}}],"tls":[{"hosts":["a.example"],"secretName":"s"}]}}"#,
    ),
    post(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        r#"{"metadata":{"name":"reader"},"rules":[{"apiGroups":[""],"resources":["pods","pods/log"],"verbs":["get"]},{"nonResourceURLs":["/x*"],"verbs":["get"]}]}"#,
    ),
    post(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        r#"{"metadata":{"name":"reader"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"reader"},"subjects":[{"kind":"User","name":"jane","apiGroup":"rbac.authorization.k8s.io"},{"kind":"ServiceAccount","name":"default","namespace":"default"}]}"#,
    ),
    post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        r#"{"metadata":{"name":"crontabs.example.com"},"spec":{"group":"example.com","names":{"plural":"crontabs","singular":"crontab","kind":"CronTab","shortNames":["ct"]},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},"additionalPrinterColumns":[{"name":"Spec","type":"string","jsonPath":".spec.items[?(@.a==\"b\")].c"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["replicas"],"properties":{"replicas":{"type":"integer","minimum":0,"default":1},"name":{"type":"string","pattern":"^[a-z]+$","maxLength":10},"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"c":{"type":"string"}}}}}},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}"#,
    ),
    post(
        "/api/v1/namespaces/default/resourcequotas",
        r#"{"metadata":{"name":"q"},"spec":{"hard":{"pods":"1000000","requests.cpu":"1M","count/configmaps":"1000000"},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["high"]}]}}}"#,
    ),
    post(
        "/api/v1/namespaces/default/limitranges",
        r#"{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"1"},"defaultRequest":{"cpu":"10m"},"max":{"cpu":"8"},"min":{"cpu":"1m"}}]}}"#,
    ),
    post(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        r#"{"metadata":{"name":"hook"},"webhooks":[{"name":"a.example.com","clientConfig":{"url":"https://127.0.0.1:1/x"},"rules":[{"apiGroups":["none.example"],"apiVersions":["*"],"operations":["CREATE"],"resources":["none"]}],"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore"}]}"#,
    ),
    post(
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        r#"{"metadata":{"name":"b"},"spec":{"maxUnavailable":"50%","selector":{"matchLabels":{"app":"none"}}}}"#,
    ),
    post(
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"x","leaseDurationSeconds":15,"renewTime":"2026-01-02T03:04:05.678901Z"}}"#,
    ),
    post(
        "/api/v1/namespaces/default/events",
        r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"web","namespace":"default"},"reason":"R","message":"m","type":"Normal","firstTimestamp":"2026-01-02T03:04:05Z","count":3}"#,
    ),
    Seed {
        method: "POST",
        path: "/api/v1/namespaces/default/configmaps",
        media_type: YAML,
        body: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\n  labels: {app: 'web'}\ndata:\n  text: |\n    one\n    two\n  quoted: \"a\\tb\"\n",
    },
];

/// Requests that change these objects, and access reviews.
pub const CHANGES: &[Seed] = &[
    patch(MAP, MERGE, r#"{"data":{"k":null,"l":"w"},"metadata":{"annotations":{"a":"b"}}}"#),
    patch(
        MAP,
        JSON_PATCH,
        r#"[{"op":"test","path":"/data/k","value":"v"},{"op":"add","path":"/data/x~1y","value":"1"},{"op":"copy","from":"/data/k","path":"/data/z"},{"op":"move","from":"/data/z","path":"/data/y"},{"op":"remove","path":"/data/y"}]"#,
    ),
    patch(MAP, APPLY, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  applied: 'yes'\n"),
    patch(
        "/api/v1/namespaces/default/configmaps/a?fieldManager=f&force=true",
        APPLY,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"applied":"no"}}"#,
    ),
    patch(
        "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=f&force=true",
        APPLY,
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"b"}]}]}}}}"#,
    ),
    patch(
        DEPLOYMENT,
        STRATEGIC,
        r#"{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"side"},{"name":"main"}],"containers":[{"name":"main","image":"nginx:2","$patch":"replace"},{"name":"side","$patch":"delete"}]}}}}"#,
    ),
    patch(
        DEPLOYMENT,
        STRATEGIC,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"labels":{"$patch":"replace","a":"b"}},"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#,
    ),
    patch("/apis/apps/v1/namespaces/default/deployments/web/scale", MERGE, r#"{"spec":{"replicas":3}}"#),
    patch(
        "/api/v1/namespaces/default/pods/web/status",
        STRATEGIC,
        r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"podIP":"10.0.0.1"}}"#,
    ),
    patch(
        "/api/v1/namespaces/default/pods/web/ephemeralcontainers",
        STRATEGIC,
        r#"{"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox"}]}}"#,
    ),
    patch(
        "/api/v1/namespaces/default/pods/web/resize",
        MERGE,
        r#"{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"200m"}}}]}}"#,
    ),
    Seed {
        method: "PUT",
        path: MAP,
        media_type: JSON,
        body: r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k":{}}}}]},"data":{"k":"w"}}"#,
    },
    Seed {
        method: "DELETE",
        path: "/api/v1/namespaces/default/configmaps/none",
        media_type: JSON,
        body: r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Foreground","preconditions":{"uid":"x","resourceVersion":"1"},"dryRun":["All"]}"#,
    },
    Seed {
        method: "DELETE",
        path: "/api/v1/namespaces/default/endpoints?labelSelector=a",
        media_type: JSON,
        body: r#"{"propagationPolicy":"Background"}"#,
    },
    post(
        "/api/v1/namespaces/default/pods/web/binding",
        r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"web"},"target":{"kind":"Node","name":"n"}}"#,
    ),
    post(
        "/api/v1/namespaces/default/pods/web/eviction",
        r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"},"deleteOptions":{"gracePeriodSeconds":5,"dryRun":["All"]}}"#,
    ),
    post(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        r#"{"spec":{"user":"jane","groups":["dev"],"extra":{"a":["b"]},"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods","fieldSelector":{"requirements":[{"key":"spec.nodeName","operator":"In","values":["n"]}]}}}}"#,
    ),
    post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", r#"{"spec":{"namespace":"default"}}"#),
    post(
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        r#"{"spec":{"audiences":["a"],"expirationSeconds":3600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"web"}}}"#,
    ),
    post(
        "/apis/example.com/v1/namespaces/default/crontabs",
        r#"{"apiVersion":"example.com/v1","kind":"CronTab","metadata":{"generateName":"c-"},"spec":{"replicas":2,"name":"abc","items":[{"a":"b","c":"d"}]},"status":{"x":{"y":[1]}}}"#,
    ),
    patch(
        POD,
        MERGE,
        r#"{"metadata":{"finalizers":["example.com/f"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"u"}]}}"#,
    ),
];
