//! What the node controller looks at, as queues have it. Pure.

/// One thing to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// Whether this process is awake.
    Pulse,
    /// A node.
    Node(&'a str),
    /// The nodes of a zone that wait.
    Zone(&'a str),
    /// A pod, by namespace and name.
    Pod(&'a str, &'a str),
}

impl<'a> Key<'a> {
    /// As a text.
    pub fn write(self) -> String {
        match self {
            Self::Pulse => "pulse".to_owned(),
            Self::Node(name) => format!("node/{name}"),
            Self::Zone(zone) => format!("zone/{zone}"),
            Self::Pod(namespace, name) => format!("pod/{namespace}/{name}"),
        }
    }

    /// And back.
    pub fn read(key: &'a str) -> Option<Self> {
        match key.split_once('/') {
            None if key == "pulse" => Some(Self::Pulse),
            Some(("node", name)) => Some(Self::Node(name)),
            Some(("zone", zone)) => Some(Self::Zone(zone)),
            Some(("pod", place)) => place.split_once('/').map(|(namespace, name)| Self::Pod(namespace, name)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    //! There and back.
    use super::Key;

    #[test]
    fn keys_are_read_as_they_were_written() {
        for key in [Key::Pulse, Key::Node("a.b"), Key::Zone("r/z"), Key::Zone("/"), Key::Pod("n", "p")] {
            assert_eq!(Key::read(&key.write()), Some(key));
        }
        assert_eq!(Key::read("else"), None);
        assert_eq!(Key::read("pod/x"), None);
    }
}
