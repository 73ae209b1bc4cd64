//! Why a node may not have a pod, in the words of the stock scheduler 1.33.

/// What could change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// There is no node at all.
    NoNodes,
    /// Cordons.
    Unschedulable,
    /// Names.
    Name,
    /// Taints.
    Taint,
    /// Labels of nodes.
    Affinity,
    /// Ports of the host.
    Ports,
    /// Room.
    Room,
    /// How pods are spread.
    Spread,
    /// Which pods are where.
    Neighbours,
    /// Claims and the volumes they are bound to.
    Volumes,
    /// An extender, of whom nobody knows what he goes by: anything.
    Extender,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::NoNodes,
        Self::Unschedulable,
        Self::Name,
        Self::Taint,
        Self::Affinity,
        Self::Ports,
        Self::Room,
        Self::Spread,
        Self::Neighbours,
        Self::Volumes,
        Self::Extender,
    ];
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// The node is cordoned.
    Unschedulable,
    /// The pod names another node.
    OtherName,
    /// The pod does not bear a taint of that key and value.
    Taint(String, String),
    /// The node is none of those that the pod asks for.
    Affinity,
    /// The node is none of those that the pod asks for by their names.
    NotNamed,
    /// Somebody has a port of the host.
    Ports,
    /// The node takes no more pods.
    TooManyPods,
    /// There is not enough left of that; `never` where the node has less in all.
    Insufficient {
        /// Name of the resource.
        name: String,
        /// Not even an empty node would do.
        never: bool,
    },
    /// Too many of its like are there already.
    Skew,
    /// The node lacks the label that pods are spread over.
    SkewLabel,
    /// Those that must be near are not.
    NotNear,
    /// Those that must not be near are.
    NotApart,
    /// Pods that are there want it away.
    Repelled,
    /// Somebody has a claim that one pod may use at a time.
    ClaimTaken,
    /// The node does not reach a volume.
    VolumeAffinity,
    /// The node is in another zone than a volume.
    VolumeZone,
    /// A claim would have to be bound on the node.
    Unbound,
    /// A claim is bound to a volume that is not there.
    VolumeGone,
    /// An extender says no; `never` where it would be so without any pods there.
    Extender {
        /// What he says.
        words: String,
        /// Not even an empty node would do.
        never: bool,
    },
}

impl Why {
    /// What could change it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Unschedulable => Kind::Unschedulable,
            Self::OtherName | Self::NotNamed => Kind::Name,
            Self::Taint(..) => Kind::Taint,
            Self::Affinity => Kind::Affinity,
            Self::Ports => Kind::Ports,
            Self::TooManyPods | Self::Insufficient { .. } => Kind::Room,
            Self::Skew | Self::SkewLabel => Kind::Spread,
            Self::NotNear | Self::NotApart | Self::Repelled => Kind::Neighbours,
            Self::ClaimTaken | Self::VolumeAffinity | Self::VolumeZone | Self::Unbound | Self::VolumeGone => {
                Kind::Volumes
            }
            Self::Extender { .. } => Kind::Extender,
        }
    }

    /// Whether it might be otherwise with fewer pods on the node.
    pub fn is_of_pods(&self) -> bool {
        match self {
            Self::Ports
            | Self::TooManyPods
            | Self::Skew
            | Self::NotApart
            | Self::Repelled
            | Self::ClaimTaken => true,
            Self::Insufficient { never, .. } | Self::Extender { never, .. } => !never,
            Self::Unschedulable
            | Self::OtherName
            | Self::Taint(..)
            | Self::Affinity
            | Self::NotNamed
            | Self::SkewLabel
            | Self::NotNear
            | Self::VolumeAffinity
            | Self::VolumeZone
            | Self::Unbound
            | Self::VolumeGone => false,
        }
    }

    /// As the stock scheduler says it.
    pub fn words(&self) -> String {
        match self {
            Self::Unschedulable => "node(s) were unschedulable".to_owned(),
            Self::OtherName => "node(s) didn't match the requested node name".to_owned(),
            Self::Taint(key, value) => format!("node(s) had untolerated taint {{{key}: {value}}}"),
            Self::Affinity => "node(s) didn't match Pod's node affinity/selector".to_owned(),
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned(),
            Self::Ports => "node(s) didn't have free ports for the requested pod ports".to_owned(),
            Self::TooManyPods => "Too many pods".to_owned(),
            Self::Insufficient { name, .. } => format!("Insufficient {name}"),
            Self::Extender { words, .. } => words.clone(),
            Self::Skew => "node(s) didn't match pod topology spread constraints".to_owned(),
            Self::SkewLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)".to_owned()
            }
            Self::NotNear => "node(s) didn't match pod affinity rules".to_owned(),
            Self::NotApart => "node(s) didn't match pod anti-affinity rules".to_owned(),
            Self::Repelled => "node(s) didn't satisfy existing pods anti-affinity rules".to_owned(),
            Self::ClaimTaken => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
                    .to_owned()
            }
            Self::VolumeAffinity => "node(s) had volume node affinity conflict".to_owned(),
            Self::VolumeZone => "node(s) had no available volume zone".to_owned(),
            Self::Unbound => "node(s) didn't find available persistent volumes to bind".to_owned(),
            Self::VolumeGone => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)".to_owned()
            }
        }
    }
}
