//! The table of all built-in API types. Types are parsed when they are first used.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use foldhash::fast::FixedState;

use super::field::Field;

/// A hash map whose keys are part of the program, so it needs no protection against hash flooding.
type ByName<T> = HashMap<&'static str, T, FixedState>;

/// All types, by name and by kind.
#[derive(Debug)]
pub struct TypeTable {
    structs: ByName<LazyStruct>,
    kinds: HashMap<(&'static str, &'static str), &'static str, FixedState>,
}

/// A type and its fields.
#[derive(Debug)]
pub struct Struct {
    /// The name with its group, such as `core.v1.PodSpec`.
    pub name: &'static str,
    /// True if the type is atomic for server-side apply.
    pub atomic: bool,
    fields: Box<[Field]>,
    /// Indices into `fields` by name.
    by_name: ByName<u16>,
    /// Indices into `fields`, sorted by field number.
    by_number: Box<[u16]>,
}

/// A field, or a nested message, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered<'a> {
    /// The field.
    Field(&'a Field),
    /// A nested message whose fields JSON inlines, given by the field numbers that lead to it.
    Nested(&'a [u32]),
}

/// The text of a type, and the type once it is parsed.
#[derive(Debug)]
struct LazyStruct {
    head: &'static str,
    lines: &'static str,
    read: OnceLock<Struct>,
}

/// The table of all types.
pub fn all() -> &'static TypeTable {
    static ALL: LazyLock<TypeTable> = LazyLock::new(|| TypeTable::parse(include_str!("../all.txt")));
    &ALL
}

impl TypeTable {
    fn parse(table: &'static str) -> Self {
        let mut all = Self { structs: ByName::default(), kinds: HashMap::default() };
        let mut rest = table;
        while !rest.is_empty() {
            let (head, after) = rest.split_once('\n').unwrap_or((rest, ""));
            let end = end_of_fields(after);
            rest = &after[end..];
            let Some(name) = head.split(' ').next().filter(|_| !head.starts_with('#')) else { continue };
            if let Some(api_version) = head.split(' ').find_map(|word| word.strip_prefix("kind=")) {
                let kind = name.rsplit('.').next().unwrap_or(name);
                all.kinds.insert((api_version, kind), name);
            }
            all.structs.insert(name, LazyStruct { head, lines: &after[..end], read: OnceLock::new() });
        }
        all
    }

    /// The type of a kind; `group` is empty for the core group.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Struct> {
        match group {
            "" => self.kind_of(version, kind),
            _ => self.kind_of(&format!("{group}/{version}"), kind),
        }
    }

    /// The type of a kind by its `apiVersion`. Kinds such as DeleteOptions exist in every group.
    pub fn kind_of(&self, api_version: &str, kind: &str) -> Option<&Struct> {
        let api_version = match (api_version, kind) {
            (_, "DeleteOptions" | "Status") => "v1",
            // Clients before Kubernetes 1.22 send it; its fields are those of policy/v1.
            ("policy/v1beta1", "Eviction") => "policy/v1",
            _ => api_version,
        };
        self.get(self.kinds.get(&(api_version, kind))?)
    }

    /// Returns the type with the given name.
    pub fn get(&self, name: &str) -> Option<&Struct> {
        let lazy = self.structs.get(name)?;
        Some(lazy.read.get_or_init(|| Struct::parse(lazy.head, lazy.lines)))
    }

    /// The field `name` of the type `of`.
    pub fn field(&self, of: &str, name: &str) -> Option<&Field> {
        self.get(of)?.field(name)
    }

    /// All kinds with their API version and type name, unordered.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.kinds.iter().map(|((api_version, kind), name)| (*api_version, *kind, *name))
    }

    /// The names of all types, unordered.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.structs.keys().copied()
    }
}

/// The end of the indented lines at the start of `text`.
fn end_of_fields(text: &str) -> usize {
    text.split_inclusive('\n').take_while(|line| line.starts_with(' ')).map(str::len).sum()
}

impl Struct {
    fn parse(head: &'static str, lines: &'static str) -> Self {
        let mut words = head.split(' ');
        let name = words.next().unwrap_or_default();
        let atomic = words.any(|word| word == "atomic");
        let fields: Box<[Field]> = lines.lines().map(Field::parse).collect();
        let mut by_number: Vec<u16> =
            (0..).zip(&fields).filter(|(_, field)| !field.numbers.is_empty()).map(|(at, _)| at).collect();
        by_number.sort_by_key(|at| &fields[usize::from(*at)].numbers);
        let by_name = (0..).zip(&fields).map(|(at, field)| (field.name, at)).collect();
        Self { name, atomic, by_name, by_number: by_number.into(), fields }
    }

    /// All fields in alphabetical order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(usize::from(*self.by_name.get(name)?))
    }

    /// Returns the field or nested message with a number. `within` is the path of the nested message to search;
    /// empty for this message.
    pub fn numbered(&self, within: &[u32], number: u32) -> Option<Numbered<'_>> {
        let numbers = |at: &u16| &*self.fields[usize::from(*at)].numbers;
        let path = within.iter().chain([&number]);
        let first = self.by_number.partition_point(|at| numbers(at).iter().lt(path.clone()));
        let field = &self.fields[usize::from(*self.by_number.get(first)?)];
        let depth = within.len() + 1;
        if field.numbers.len() < depth || !field.numbers[..depth].iter().eq(path) {
            return None;
        }
        Some(if field.numbers.len() == depth {
            Numbered::Field(field)
        } else {
            Numbered::Nested(&field.numbers[..depth])
        })
    }
}
