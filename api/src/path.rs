//! Field paths, such as `spec.containers[0].image`.

use std::fmt;

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The field of an object.
    Field(&'a str),
    /// A key of a map, such as a label.
    Key(&'a str),
    /// An index of a list.
    Index(usize),
}

/// A path on the stack, built while an object is traversed. It allocates only when an error is reported.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Option<Step<'a>>,
}

impl<'a> Path<'a> {
    /// The object itself.
    pub const ROOT: Path<'static> = Path { parent: None, step: None };

    /// The path of the field `name`.
    pub fn field(&'a self, name: &'a str) -> Self {
        self.step(Step::Field(name))
    }

    /// The path of the map entry `key`.
    pub fn key(&'a self, key: &'a str) -> Self {
        self.step(Step::Key(key))
    }

    /// The path of the list element `index`.
    pub fn index(&'a self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    /// True for all paths except the root.
    pub fn is_inside(&self) -> bool {
        self.step.is_some()
    }

    fn step(&'a self, step: Step<'a>) -> Self {
        Path { parent: Some(self), step: Some(step) }
    }

    /// Copies the path to the heap.
    pub fn to_owned(&self) -> PathBuf {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(path) = at {
            steps.extend(path.step.map(OwnedStep::from));
            at = path.parent;
        }
        steps.reverse();
        PathBuf(steps)
    }
}

/// One step of a [`PathBuf`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedStep {
    /// The field of an object.
    Field(String),
    /// A key of a map.
    Key(String),
    /// An index of a list.
    Index(usize),
}

impl From<Step<'_>> for OwnedStep {
    fn from(step: Step<'_>) -> Self {
        match step {
            Step::Field(name) => Self::Field(name.to_owned()),
            Step::Key(key) => Self::Key(key.to_owned()),
            Step::Index(index) => Self::Index(index),
        }
    }
}

/// An owned path, as in a [`FieldError`](crate::field_error::FieldError).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathBuf(pub Vec<OwnedStep>);

impl PathBuf {
    /// The steps from the root.
    pub fn steps(&self) -> &[OwnedStep] {
        &self.0
    }

    /// Prepends `prefix` to the path.
    pub fn under(mut self, prefix: &PathBuf) -> Self {
        self.0.splice(0..0, prefix.0.iter().cloned());
        self
    }
}

impl From<&str> for PathBuf {
    /// Parses the output of [`fmt::Display`]. A number in brackets is an index, any other text in brackets is a key.
    fn from(text: &str) -> Self {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((key, tail)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
                steps.push(key.parse().map_or_else(|_| OwnedStep::Key(key.to_owned()), OwnedStep::Index));
                rest = tail;
            } else {
                let field = rest.strip_prefix('.').unwrap_or(rest);
                let end = field.char_indices().skip(1).find(|(_, c)| matches!(c, '.' | '['));
                let (name, tail) = field.split_at(end.map_or(field.len(), |(end, _)| end));
                steps.push(OwnedStep::Field(name.to_owned()));
                rest = tail;
            }
        }
        Self(steps)
    }
}

impl fmt::Display for PathBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                OwnedStep::Field(name) if position == 0 => f.write_str(name)?,
                OwnedStep::Field(name) => write!(f, ".{name}")?,
                OwnedStep::Key(key) => write!(f, "[{key}]")?,
                OwnedStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of formatting and parsing paths.

    use super::{Path, PathBuf};

    #[test]
    fn path_formats_the_position() {
        let spec = Path::ROOT.field("spec");
        let containers = spec.field("containers");
        let container = containers.index(2);
        let resources = container.field("resources");
        let limits = resources.field("limits");
        assert_eq!(
            limits.key("example.com/gpu").to_owned().to_string(),
            "spec.containers[2].resources.limits[example.com/gpu]"
        );
        assert_eq!(Path::ROOT.to_owned().to_string(), "");
    }

    #[test]
    fn text_round_trips() {
        for text in [
            "",
            "spec",
            "spec.containers[0].image",
            "items[1].items[0]",
            "metadata.labels[app.kubernetes.io/name]",
            "data[a b]",
        ] {
            assert_eq!(PathBuf::from(text).to_string(), text);
        }
        // Parsing terminates for any text.
        for text in ["..", "[", "a[", "a[b", "]", ".[0]", "é.é"] {
            assert!(PathBuf::from(text).steps().len() < 4, "{text}");
        }
    }
}
