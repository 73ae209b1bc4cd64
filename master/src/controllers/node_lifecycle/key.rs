//! Work queue keys of the node lifecycle controller. Pure.

/// A work queue key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// The periodic suspend check.
    SuspendCheck,
    /// A node by name.
    Node(&'a str),
    /// The eviction queue of a zone.
    Zone(&'a str),
    /// A pod by namespace and name.
    Pod(&'a str, &'a str),
}

impl<'a> Key<'a> {
    /// Formats the key.
    pub fn write(self) -> String {
        match self {
            Self::SuspendCheck => "suspend-check".to_owned(),
            Self::Node(name) => format!("node/{name}"),
            Self::Zone(zone) => format!("zone/{zone}"),
            Self::Pod(namespace, name) => format!("pod/{namespace}/{name}"),
        }
    }

    /// Parses a key.
    pub fn read(key: &'a str) -> Option<Self> {
        match key.split_once('/') {
            None if key == "suspend-check" => Some(Self::SuspendCheck),
            Some(("node", name)) => Some(Self::Node(name)),
            Some(("zone", zone)) => Some(Self::Zone(zone)),
            Some(("pod", place)) => place.split_once('/').map(|(namespace, name)| Self::Pod(namespace, name)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests that keys are parsed as they were formatted.
    use super::Key;

    #[test]
    fn keys_are_read_as_they_were_written() {
        for key in [Key::SuspendCheck, Key::Node("a.b"), Key::Zone("r/z"), Key::Zone("/"), Key::Pod("n", "p")]
        {
            assert_eq!(Key::read(&key.write()), Some(key));
        }
        assert_eq!(Key::read("else"), None);
        assert_eq!(Key::read("pod/x"), None);
    }
}
