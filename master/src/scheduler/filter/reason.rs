//! Reasons why a node does not fit a pod, with the messages of the stock scheduler 1.33.

/// The plugin that rejected a node. It decides which cluster events may make the pod schedulable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Plugin {
    /// There are no nodes.
    NoNodes,
    /// NodeUnschedulable checks whether the node is cordoned.
    NodeUnschedulable,
    /// NodeName checks the node name, which never changes. Only a new node can help.
    NodeName,
    TaintToleration,
    /// NodeAffinity checks the labels of the node.
    NodeAffinity,
    /// NodePorts checks host ports.
    NodePorts,
    /// NodeResourcesFit checks free resources and the pod limit.
    NodeResourcesFit,
    /// PodTopologySpread checks where matching pods run.
    PodTopologySpread,
    /// InterPodAffinity checks where matching pods run.
    InterPodAffinity,
    /// VolumeBinding, VolumeZone and VolumeRestrictions check claims and volumes.
    VolumeBinding,
    /// An extender. Its criteria are unknown, so any event may help.
    Extender,
}

impl Plugin {
    /// All plugins.
    pub const ALL: [Self; 11] = [
        Self::NoNodes,
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodePorts,
        Self::NodeResourcesFit,
        Self::PodTopologySpread,
        Self::InterPodAffinity,
        Self::VolumeBinding,
        Self::Extender,
    ];
}

/// Why a node does not fit a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    NodeUnschedulable,
    /// `spec.nodeName` names another node.
    NodeNameMismatch,
    /// The pod does not tolerate a taint with this key and value.
    UntoleratedTaint(String, String),
    /// The node does not match the node selector or the required node affinity.
    NodeAffinityMismatch,
    /// The required node affinity names other nodes by `metadata.name`.
    NotInNodeAffinityNames,
    /// Another pod uses a host port of the pod.
    PortConflict,
    /// The node has reached its pod limit.
    TooManyPods,
    /// Too little of a resource is left.
    InsufficientResource {
        /// Name of the resource.
        name: String,
        /// The pod requests more than the node's allocatable amount, so preemption cannot help.
        unresolvable: bool,
    },
    /// The pod would exceed `maxSkew`.
    SkewExceeded,
    /// The node lacks the topology key of a spread constraint.
    MissingTopologyLabel,
    /// No pod that matches the required affinity runs in the topology domain.
    PodAffinityMismatch,
    /// A pod that matches the required anti-affinity runs in the topology domain.
    PodAntiAffinityConflict,
    /// An existing pod has a required anti-affinity to the pod.
    ExistingPodAntiAffinity,
    /// Another pod uses a ReadWriteOncePod claim of the pod.
    ReadWriteOncePodConflict,
    /// The node affinity of a volume excludes the node.
    VolumeNodeAffinityConflict,
    /// A volume is in another zone.
    VolumeZoneConflict,
    /// A claim waits for its first consumer, and no controller binds it on this node.
    UnboundClaim,
    /// A claim is bound to a volume that does not exist.
    VolumeNotFound,
    /// An extender rejected the node.
    Extender {
        /// The message of the extender.
        message: String,
        /// Whether the extender reports that preemption cannot help.
        unresolvable: bool,
    },
}

impl Reason {
    /// The plugin that gives this reason.
    pub fn plugin(&self) -> Plugin {
        match self {
            Self::NodeUnschedulable => Plugin::NodeUnschedulable,
            Self::NodeNameMismatch | Self::NotInNodeAffinityNames => Plugin::NodeName,
            Self::UntoleratedTaint(..) => Plugin::TaintToleration,
            Self::NodeAffinityMismatch => Plugin::NodeAffinity,
            Self::PortConflict => Plugin::NodePorts,
            Self::TooManyPods | Self::InsufficientResource { .. } => Plugin::NodeResourcesFit,
            Self::SkewExceeded | Self::MissingTopologyLabel => Plugin::PodTopologySpread,
            Self::PodAffinityMismatch | Self::PodAntiAffinityConflict | Self::ExistingPodAntiAffinity => {
                Plugin::InterPodAffinity
            }
            Self::ReadWriteOncePodConflict
            | Self::VolumeNodeAffinityConflict
            | Self::VolumeZoneConflict
            | Self::UnboundClaim
            | Self::VolumeNotFound => Plugin::VolumeBinding,
            Self::Extender { .. } => Plugin::Extender,
        }
    }

    /// Whether deleting pods from the node could resolve the reason.
    pub fn is_resolvable(&self) -> bool {
        match self {
            Self::PortConflict
            | Self::TooManyPods
            | Self::SkewExceeded
            | Self::PodAntiAffinityConflict
            | Self::ExistingPodAntiAffinity
            | Self::ReadWriteOncePodConflict => true,
            Self::InsufficientResource { unresolvable, .. } | Self::Extender { unresolvable, .. } => {
                !unresolvable
            }
            Self::NodeUnschedulable
            | Self::NodeNameMismatch
            | Self::UntoleratedTaint(..)
            | Self::NodeAffinityMismatch
            | Self::NotInNodeAffinityNames
            | Self::MissingTopologyLabel
            | Self::PodAffinityMismatch
            | Self::VolumeNodeAffinityConflict
            | Self::VolumeZoneConflict
            | Self::UnboundClaim
            | Self::VolumeNotFound => false,
        }
    }

    /// The message of the stock scheduler.
    pub fn message(&self) -> String {
        match self {
            Self::NodeUnschedulable => "node(s) were unschedulable".to_owned(),
            Self::NodeNameMismatch => "node(s) didn't match the requested node name".to_owned(),
            Self::UntoleratedTaint(key, value) => format!("node(s) had untolerated taint {{{key}: {value}}}"),
            Self::NodeAffinityMismatch => "node(s) didn't match Pod's node affinity/selector".to_owned(),
            Self::NotInNodeAffinityNames => "node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned(),
            Self::PortConflict => "node(s) didn't have free ports for the requested pod ports".to_owned(),
            Self::TooManyPods => "Too many pods".to_owned(),
            Self::InsufficientResource { name, .. } => format!("Insufficient {name}"),
            Self::Extender { message, .. } => message.clone(),
            Self::SkewExceeded => "node(s) didn't match pod topology spread constraints".to_owned(),
            Self::MissingTopologyLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)".to_owned()
            }
            Self::PodAffinityMismatch => "node(s) didn't match pod affinity rules".to_owned(),
            Self::PodAntiAffinityConflict => "node(s) didn't match pod anti-affinity rules".to_owned(),
            Self::ExistingPodAntiAffinity => {
                "node(s) didn't satisfy existing pods anti-affinity rules".to_owned()
            }
            Self::ReadWriteOncePodConflict => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
                    .to_owned()
            }
            Self::VolumeNodeAffinityConflict => "node(s) had volume node affinity conflict".to_owned(),
            Self::VolumeZoneConflict => "node(s) had no available volume zone".to_owned(),
            Self::UnboundClaim => "node(s) didn't find available persistent volumes to bind".to_owned(),
            Self::VolumeNotFound => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)".to_owned()
            }
        }
    }
}
