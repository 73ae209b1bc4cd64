//! Facts about API types that are in neither crate: tags and pointers of the Go types.

use std::collections::BTreeSet;

/// Unions: protobuf encodes them as a message with one of these fields.
pub const ONE_OF: [(&str, &[(&str, &str)]); 3] = [
    (
        "apiextensions.v1.JSONSchemaPropsOrArray",
        &[
            ("schema", "apiextensions.v1.JSONSchemaProps"),
            ("jSONSchemas", "[]apiextensions.v1.JSONSchemaProps"),
        ],
    ),
    (
        "apiextensions.v1.JSONSchemaPropsOrBool",
        &[("allows", "bool"), ("schema", "apiextensions.v1.JSONSchemaProps")],
    ),
    (
        "apiextensions.v1.JSONSchemaPropsOrStringArray",
        &[("schema", "apiextensions.v1.JSONSchemaProps"), ("property", "[]string")],
    ),
];

/// Structs that are embedded under another name: type and field.
pub const EMBEDDED: [(&str, &str); 1] = [("core.v1.Probe", "handler")];

/// Fields of k8s-pb that the API has removed.
pub const GONE: [(&str, &str); 3] = [
    ("certificates.v1.PodCertificateRequestSpec", "pkixpublickey"),
    ("certificates.v1.PodCertificateRequestSpec", "proofofpossession"),
    ("core.v1.PodSpec", "workloadref"),
];

/// Fields that are required in k8s-openapi, but optional in the API.
const OPTIONAL: &str = "
core.v1.ConfigMapEnvSource: name
core.v1.ConfigMapKeySelector: name
core.v1.ConfigMapProjection: name
core.v1.ConfigMapVolumeSource: name
core.v1.LocalObjectReference: name
core.v1.SecretEnvSource: name
core.v1.SecretKeySelector: name
core.v1.SecretProjection: name
";

/// Fields that are optional in k8s-openapi, but always written by the API, because they have no `omitempty`.
const WRITTEN: &str = "
discovery.v1.EndpointSlice: endpoints
policy.v1.PodDisruptionBudgetStatus: currentHealthy desiredHealthy disruptionsAllowed expectedPods
";

/// Types with `+structType=atomic`.
const ATOMIC: &str = "
admissionregistration.v1: MatchResources NamedRuleWithOperations ParamKind ParamRef Variable
autoscaling.v1: CrossVersionObjectReference
core.v1: ConfigMapKeySelector EndpointAddress EndpointPort FileKeySelector LocalObjectReference NodeSelector NodeSelectorTerm
core.v1: ObjectFieldSelector ObjectReference ResourceFieldSelector ScopeSelector
core.v1: SecretKeySelector SecretReference TopologySelectorTerm TypedLocalObjectReference
discovery.v1: EndpointPort
meta.v1: LabelSelector OwnerReference
networking.v1: ServiceBackendPort
rbac.v1: RoleRef Subject
";

/// Fields of atomic types with `+structType=granular`.
const GRANULAR: &str = "core.v1.PersistentVolumeSpec: claimRef";

/// `listType` and `listMapKey` of fields for which k8s-openapi uses `patchMergeKey`.
const LISTS: &str = "
batch.v1.JobStatus: conditions atomic
core.v1.Container: ports map=containerPort,protocol
core.v1.EphemeralContainer: ports map=containerPort,protocol
core.v1.PodSpec: topologySpreadConstraints map=topologyKey,whenUnsatisfiable
core.v1.PodStatus: hostIPs atomic
core.v1.PodVolumeHealth: healthConditions map=status,reason
core.v1.ServiceSpec: ports map=port,protocol
core.v1.VolumeHealthStatus: healthConditions map=status,reason
admissionregistration.v1.MutatingAdmissionPolicySpec: variables atomic
";

/// Defaults that are in the OpenAPI documents of the API. Server-side apply needs those of list keys.
const DEFAULTS: &str = "
core.v1.ConfigMapEnvSource: name \"\"
core.v1.ConfigMapKeySelector: name \"\"
core.v1.ConfigMapProjection: name \"\"
core.v1.ConfigMapVolumeSource: name \"\"
core.v1.ContainerPort: protocol TCP
core.v1.LocalObjectReference: name \"\"
core.v1.SecretEnvSource: name \"\"
core.v1.SecretKeySelector: name \"\"
core.v1.SecretProjection: name \"\"
core.v1.ServicePort: protocol TCP
";

/// `patchStrategy` and `patchMergeKey`.
const PATCH: &str = "
admissionregistration.v1.MutatingAdmissionPolicySpec: variables merge=name, matchConditions merge=name
admissionregistration.v1.MutatingWebhook: matchConditions merge=name
admissionregistration.v1.MutatingWebhookConfiguration: webhooks merge=name
admissionregistration.v1.ValidatingAdmissionPolicySpec: variables merge=name, matchConditions merge=name
admissionregistration.v1.ValidatingWebhook: matchConditions merge=name
admissionregistration.v1.ValidatingWebhookConfiguration: webhooks merge=name
apiextensions.v1.JSONSchemaProps: x-kubernetes-validations merge=rule
apiregistration.v1.APIServiceStatus: conditions merge=type
apps.v1.DaemonSetStatus: conditions merge=type
apps.v1.DeploymentSpec: strategy retainKeys
apps.v1.DeploymentStatus: conditions merge=type
apps.v1.ReplicaSetStatus: conditions merge=type
apps.v1.StatefulSetStatus: conditions merge=type
autoscaling.v2.HorizontalPodAutoscalerStatus: conditions merge=type
batch.v1.JobStatus: conditions merge=type
core.v1.ComponentStatus: conditions merge=type
core.v1.Container: env merge=name, ports merge=containerPort, volumeDevices merge=devicePath, volumeMounts merge=mountPath
core.v1.ContainerStatus: allocatedResourcesStatus merge=name, volumeMounts merge=mountPath
core.v1.EphemeralContainer: env merge=name, ports merge=containerPort, volumeDevices merge=devicePath
core.v1.EphemeralContainer: volumeMounts merge=mountPath
core.v1.NamespaceStatus: conditions merge=type
core.v1.NodeSpec: podCIDRs merge
core.v1.NodeStatus: addresses merge=type, conditions merge=type
core.v1.PersistentVolumeClaimStatus: conditions merge=type
core.v1.PodSpec: containers merge=name, ephemeralContainers merge=name, evictionResponders merge=name, hostAliases merge=ip
core.v1.PodSpec: imagePullSecrets merge=name, initContainers merge=name, resourceClaims mergeRetainKeys=name
core.v1.PodSpec: schedulingGates merge=name, topologySpreadConstraints merge=topologyKey, volumes mergeRetainKeys=name
core.v1.PodStatus: conditions merge=type, hostIPs merge=ip, podIPs merge=ip, resourceClaimStatuses mergeRetainKeys=name
core.v1.PodVolumeHealth: healthConditions merge=status
core.v1.ReplicationControllerStatus: conditions merge=type
core.v1.ServiceAccount: secrets merge=name
core.v1.ServiceSpec: ports merge=port
core.v1.ServiceStatus: conditions merge=type
core.v1.VolumeHealthStatus: healthConditions merge=status
flowcontrol.v1.FlowSchemaStatus: conditions merge=type
flowcontrol.v1.PriorityLevelConfigurationStatus: conditions merge=type
meta.v1.ObjectMeta: finalizers merge, ownerReferences merge=uid
networking.v1.ServiceCIDRStatus: conditions merge=type
policy.v1.PodDisruptionBudgetStatus: conditions merge=type
resource.v1.ResourceClaimStatus: reservedFor merge=uid
storage.v1.CSINodeSpec: drivers merge=name
";

/// Fields that are pointers in Go, so that zero differs from absent.
const POINTERS: &str = "
admissionregistration.v1.MatchResources: matchPolicy
admissionregistration.v1.MutatingAdmissionPolicySpec: failurePolicy
admissionregistration.v1.MutatingWebhook: failurePolicy matchPolicy reinvocationPolicy sideEffects timeoutSeconds
admissionregistration.v1.NamedRuleWithOperations: scope
admissionregistration.v1.ParamRef: parameterNotFoundAction
admissionregistration.v1.RuleWithOperations: scope
admissionregistration.v1.ServiceReference: path port
admissionregistration.v1.ValidatingAdmissionPolicySpec: failurePolicy
admissionregistration.v1.ValidatingWebhook: failurePolicy matchPolicy sideEffects timeoutSeconds
admissionregistration.v1.Validation: reason
admissionregistration.v1.WebhookClientConfig: url
apiextensions.v1.CustomResourceDefinitionVersion: deprecationWarning
apiextensions.v1.CustomResourceSubresourceScale: labelSelectorPath
apiextensions.v1.JSONSchemaProps: $ref maxItems maxLength maxProperties maximum minItems minLength minProperties minimum
apiextensions.v1.JSONSchemaProps: multipleOf x-kubernetes-list-type x-kubernetes-map-type
apiextensions.v1.JSONSchemaProps: x-kubernetes-preserve-unknown-fields
apiextensions.v1.JSONSchemaPropsOrBool: allows
apiextensions.v1.ServiceReference: path port
apiextensions.v1.ValidationRule: optionalOldSelf reason
apiextensions.v1.WebhookClientConfig: url
apiregistration.v1.ServiceReference: port
apps.v1.DaemonSetSpec: revisionHistoryLimit
apps.v1.DaemonSetStatus: collisionCount
apps.v1.DeploymentSpec: progressDeadlineSeconds replicas revisionHistoryLimit
apps.v1.DeploymentStatus: collisionCount terminatingReplicas
apps.v1.ReplicaSetSpec: replicas
apps.v1.ReplicaSetStatus: terminatingReplicas
apps.v1.RollingUpdateDaemonSet: maxSurge maxUnavailable
apps.v1.RollingUpdateDeployment: maxSurge maxUnavailable
apps.v1.RollingUpdateStatefulSetStrategy: maxUnavailable partition
apps.v1.StatefulSetSpec: replicas revisionHistoryLimit
apps.v1.StatefulSetStatus: collisionCount
authentication.v1.TokenRequestSpec: expirationSeconds
autoscaling.v1.HorizontalPodAutoscalerSpec: minReplicas targetCPUUtilizationPercentage
autoscaling.v1.HorizontalPodAutoscalerStatus: currentCPUUtilizationPercentage observedGeneration
autoscaling.v2.HPAScalingRules: selectPolicy stabilizationWindowSeconds
autoscaling.v2.HorizontalPodAutoscalerSpec: minReplicas
autoscaling.v2.HorizontalPodAutoscalerStatus: observedGeneration
autoscaling.v2.MetricTarget: averageUtilization
autoscaling.v2.MetricValueStatus: averageUtilization
batch.v1.CronJobSpec: failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone
batch.v1.JobSpec: activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy
batch.v1.JobSpec: manualSelector maxFailedIndexes parallelism podReplacementPolicy suspend ttlSecondsAfterFinished
batch.v1.JobStatus: failedIndexes ready terminating
batch.v1.PodFailurePolicyOnExitCodesRequirement: containerName
batch.v1.SuccessPolicyRule: succeededCount succeededIndexes
certificates.v1.CertificateSigningRequestSpec: expirationSeconds
certificates.v1.PodCertificateRequestSpec: maxExpirationSeconds
coordination.v1.LeaseSpec: holderIdentity leaseDurationSeconds leaseTransitions preferredHolder strategy
core.v1.AppArmorProfile: localhostProfile
core.v1.AzureDiskVolumeSource: cachingMode fsType kind readOnly
core.v1.AzureFilePersistentVolumeSource: secretNamespace
core.v1.CSIVolumeSource: fsType readOnly
core.v1.ClientIPConfig: timeoutSeconds
core.v1.ClusterTrustBundleProjection: name optional signerName user
core.v1.ConfigMap: immutable
core.v1.ConfigMapEnvSource: optional
core.v1.ConfigMapKeySelector: optional
core.v1.ConfigMapProjection: optional
core.v1.ConfigMapVolumeSource: defaultMode defaultUser optional
core.v1.Container: restartPolicy
core.v1.ContainerStatus: started stopSignal
core.v1.DownwardAPIVolumeFile: mode user
core.v1.DownwardAPIVolumeSource: defaultMode defaultUser
core.v1.EmptyDirVolumeSource: mode
core.v1.EndpointAddress: nodeName
core.v1.EndpointPort: appProtocol
core.v1.EphemeralContainer: restartPolicy
core.v1.EvictionResponder: priority
core.v1.FCVolumeSource: lun
core.v1.FileKeySelector: optional
core.v1.GRPCAction: service
core.v1.GlusterfsPersistentVolumeSource: endpointsNamespace
core.v1.HostPathVolumeSource: type
core.v1.ISCSIPersistentVolumeSource: initiatorName
core.v1.ISCSIVolumeSource: initiatorName
core.v1.KeyToPath: mode user
core.v1.Lifecycle: stopSignal
core.v1.LoadBalancerIngress: ipMode
core.v1.LocalVolumeSource: fsType
core.v1.NodeFeatures: supplementalGroupsPolicy
core.v1.NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts userNamespaces
core.v1.NodeSwapStatus: capacity
core.v1.PersistentVolumeClaimSpec: storageClassName volumeAttributesClassName volumeMode
core.v1.PersistentVolumeClaimStatus: currentVolumeAttributesClassName
core.v1.PersistentVolumeSpec: volumeAttributesClassName volumeMode
core.v1.PodCertificateProjection: maxExpirationSeconds user
core.v1.PodDNSConfigOption: value
core.v1.PodResourceClaim: resourceClaimName resourceClaimTemplateName
core.v1.PodResourceClaimStatus: resourceClaimName
core.v1.PodSecurityContext: fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy
core.v1.PodSecurityContext: supplementalGroupsPolicy
core.v1.PodSpec: activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostUsers hostnameOverride
core.v1.PodSpec: preemptionPolicy priority runtimeClassName setHostnameAsFQDN shareProcessNamespace
core.v1.PodSpec: terminationGracePeriodSeconds
core.v1.PortStatus: error
core.v1.Probe: terminationGracePeriodSeconds
core.v1.ProjectedVolumeSource: defaultMode defaultUser
core.v1.ReplicationControllerSpec: replicas
core.v1.SeccompProfile: localhostProfile
core.v1.Secret: immutable
core.v1.SecretEnvSource: optional
core.v1.SecretKeySelector: optional
core.v1.SecretProjection: optional
core.v1.SecretVolumeSource: defaultMode defaultUser optional
core.v1.SecurityContext: allowPrivilegeEscalation privileged procMount readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser
core.v1.ServiceAccount: automountServiceAccountToken
core.v1.ServiceAccountTokenProjection: expirationSeconds user
core.v1.ServicePort: appProtocol
core.v1.ServiceSpec: allocateLoadBalancerNodePorts internalTrafficPolicy ipFamilyPolicy loadBalancerClass trafficDistribution
core.v1.Toleration: tolerationSeconds
core.v1.TopologySpreadConstraint: minDomains nodeAffinityPolicy nodeTaintsPolicy
core.v1.TypedLocalObjectReference: apiGroup
core.v1.TypedObjectReference: apiGroup namespace
core.v1.VolumeMount: mountPropagation recursiveReadOnly
core.v1.VolumeMountStatus: recursiveReadOnly
core.v1.WindowsSecurityContextOptions: gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName
discovery.v1.Endpoint: hostname nodeName zone
discovery.v1.EndpointConditions: ready serving terminating
discovery.v1.EndpointPort: appProtocol name port protocol
flowcontrol.v1.ExemptPriorityLevelConfiguration: lendablePercent nominalConcurrencyShares
flowcontrol.v1.LimitedPriorityLevelConfiguration: borrowingLimitPercent lendablePercent nominalConcurrencyShares
meta.v1.DeleteOptions: gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential orphanDependents propagationPolicy
meta.v1.ListMeta: remainingItemCount
meta.v1.ObjectMeta: deletionGracePeriodSeconds
meta.v1.OwnerReference: blockOwnerDeletion controller
meta.v1.Preconditions: resourceVersion uid
networking.v1.HTTPIngressPath: pathType
networking.v1.IngressClassParametersReference: apiGroup namespace scope
networking.v1.IngressPortStatus: error
networking.v1.IngressSpec: ingressClassName
networking.v1.NetworkPolicyPort: endPort port protocol
policy.v1.PodDisruptionBudgetSpec: maxUnavailable minAvailable unhealthyPodEvictionPolicy
resource.v1.AllocatedDeviceStatus: shareID
resource.v1.Device: allNodes allowMultipleAllocations bindsToNode nodeName
resource.v1.DeviceAttribute: bool int string version
resource.v1.DeviceClassSpec: extendedResourceName
resource.v1.DeviceConstraint: distinctAttribute matchAttribute
resource.v1.DeviceRequestAllocationResult: adminAccess shareID
resource.v1.DeviceTaintSelector: device driver pool
resource.v1.DeviceToleration: tolerationSeconds
resource.v1.ExactDeviceRequest: adminAccess
resource.v1.NodeAllocatableMapping: capacityKey
resource.v1.ResourceSliceSpec: allNodes nodeName partitionTypeAttribute perDeviceNodeSelection
scheduling.v1.PriorityClass: preemptionPolicy
storage.v1.CSIDriverSpec: attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount
storage.v1.CSIDriverSpec: preventPodSchedulingIfMissing requiresRepublish seLinuxMount serviceAccountTokenInSecrets
storage.v1.CSIDriverSpec: storageCapacity
storage.v1.StorageClass: allowVolumeExpansion reclaimPolicy volumeBindingMode
storage.v1.TokenRequest: expirationSeconds
storage.v1.VolumeAttachmentSource: persistentVolumeName
storage.v1.VolumeError: errorCode
storage.v1.VolumeNodeResources: count
";

/// The facts, and those that were used.
#[derive(Default)]
pub struct Facts {
    used: BTreeSet<String>,
}

impl Facts {
    /// Whether the type is atomic.
    pub fn is_atomic(&mut self, of: &str) -> bool {
        let (room, name) = of.rsplit_once('.').unwrap_or(("", of));
        self.word(ATOMIC, room, name)
    }

    /// Whether the field is granular although its type is atomic.
    pub fn is_granular(&mut self, field: &str) -> bool {
        let (of, name) = field.rsplit_once('.').unwrap();
        self.word(GRANULAR, of, name)
    }

    /// Whether the field is optional although k8s-openapi requires it.
    pub fn is_optional(&mut self, field: &str) -> bool {
        let (of, name) = field.rsplit_once('.').unwrap();
        self.word(OPTIONAL, of, name)
    }

    /// Whether the field is always written.
    pub fn is_written(&mut self, field: &str) -> bool {
        let (of, name) = field.rsplit_once('.').unwrap();
        self.word(WRITTEN, of, name)
    }

    /// Whether the field is a pointer in Go.
    pub fn is_pointer(&mut self, field: &str) -> bool {
        let (of, name) = field.rsplit_once('.').unwrap();
        self.word(POINTERS, of, name)
    }

    /// The strategic merge patch strategy.
    pub fn patch(&mut self, field: &str) -> Option<&'static str> {
        self.pair(PATCH, field)
    }

    /// The default in OpenAPI, or `""` for an empty string.
    pub fn default_of(&mut self, field: &str) -> Option<&'static str> {
        self.pair(DEFAULTS, field)
    }

    /// The list type, if it differs from k8s-openapi.
    pub fn list(&mut self, field: &str) -> Option<&'static str> {
        self.pair(LISTS, field)
    }

    /// Fails for facts about unknown types or fields, which are misspelt or outdated.
    pub fn all_used(&self) {
        let words = [ATOMIC, GRANULAR, OPTIONAL, POINTERS, WRITTEN]
            .into_iter()
            .flat_map(lines)
            .flat_map(|(of, words)| words.split(' ').map(move |word| format!("{of}.{word}")));
        let pairs = [DEFAULTS, LISTS, PATCH].into_iter().flat_map(lines).flat_map(|(of, pairs)| {
            pairs.split(", ").map(move |pair| format!("{of}.{}", pair.split(' ').next().unwrap()))
        });
        let unused: Vec<String> = words.chain(pairs).filter(|fact| !self.used.contains(fact)).collect();
        assert!(unused.is_empty(), "facts about nothing: {unused:#?}");
    }

    fn word(&mut self, facts: &'static str, of: &str, name: &str) -> bool {
        let found = lines(facts).any(|(at, words)| at == of && words.split(' ').any(|word| word == name));
        if found {
            self.used.insert(format!("{of}.{name}"));
        }
        found
    }

    fn pair(&mut self, facts: &'static str, field: &str) -> Option<&'static str> {
        let (of, name) = field.rsplit_once('.').unwrap();
        let mut pairs = lines(facts).filter(|(at, _)| *at == of).flat_map(|(_, pairs)| pairs.split(", "));
        let value = pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(' '))?;
        self.used.insert(field.to_owned());
        Some(value)
    }
}

fn lines(facts: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    facts.lines().filter_map(|line| line.split_once(": "))
}
