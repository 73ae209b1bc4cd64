//! The names of custom resources, and conflicts between them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::strategy::Json;

/// The names of a custom resource: `spec.names` or `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The plural name, which is used in paths.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of lists.
    pub list_kind: String,
    /// The short names for the command line.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
}

/// The names that other resources of the group use.
#[derive(Clone, Debug, Default)]
pub struct UsedNames {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
    /// The names of built-in kinds among them. A definition never gets one of these names, even if its status lists
    /// it.
    built_in: BTreeSet<String>,
}

/// A name of a definition that another resource already uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub reason: &'static str,
    pub message: String,
    /// True if a built-in kind has the name, so that the conflict cannot be resolved.
    pub is_final: bool,
}

impl Names {
    /// Parses names; missing ones are empty.
    pub fn read(names: Option<&Value>) -> Self {
        let text =
            |field: &str| names.and_then(|names| names.get(field)?.as_str()).unwrap_or_default().to_owned();
        let texts = |field: &str| {
            let list = names.and_then(|names| names.get(field)?.as_array());
            list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: texts("shortNames"),
            categories: texts("categories"),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut names = json!({"kind": self.kind, "plural": self.plural});
        for (field, name) in [("listKind", &self.list_kind), ("singular", &self.singular)] {
            if !name.is_empty() {
                names[field] = json!(name);
            }
        }
        for (field, list) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !list.is_empty() {
                names[field] = json!(list);
            }
        }
        names
    }

    /// Returns the names that can be accepted, given those `accepted` before, and the last conflict.
    pub(super) fn accept(&self, accepted: &Self, taken: &UsedNames) -> (Self, Option<Conflict>) {
        let mut now = Self { categories: self.categories.clone(), ..accepted.clone() };
        let mut conflict = None;
        let mut settle =
            |wanted: &String, held: &mut String, used: &BTreeSet<String>, reason: &'static str| {
                if taken.built_in.contains(held) {
                    held.clear();
                }
                if wanted == held || !used.contains(wanted) {
                    held.clone_from(wanted);
                } else {
                    let message = format!("\"{wanted}\" is already in use");
                    conflict = Some(Conflict { reason, message, is_final: false });
                }
            };
        settle(&self.plural, &mut now.plural, &taken.resources, "PluralConflict");
        settle(&self.singular, &mut now.singular, &taken.resources, "SingularConflict");
        settle(&self.kind, &mut now.kind, &taken.kinds, "KindConflict");
        settle(&self.list_kind, &mut now.list_kind, &taken.kinds, "ListKindConflict");
        let in_use = |name: &&String| !accepted.short_names.contains(name) && taken.resources.contains(*name);
        let messages: Vec<String> = self
            .short_names
            .iter()
            .filter(in_use)
            .map(|name| format!("\"{name}\" is already in use"))
            .collect();
        if messages.is_empty() {
            now.short_names.clone_from(&self.short_names);
        } else {
            let message =
                if messages.len() == 1 { messages.concat() } else { format!("[{}]", messages.join(", ")) };
            conflict = Some(Conflict { reason: "ShortNamesConflict", message, is_final: false });
        }
        let wanted = [&self.plural, &self.singular, &self.kind, &self.list_kind];
        let is_final = wanted.into_iter().any(|name| taken.built_in.contains(name));
        (now, conflict.map(|conflict| Conflict { is_final, ..conflict }))
    }
}

impl UsedNames {
    /// The accepted names of all definitions of `group` except the one named `except`.
    pub fn by<'a>(definitions: impl Iterator<Item = &'a Json>, group: &str, except: &str) -> Self {
        let mut taken = Self::default();
        for definition in definitions {
            let at = |room: &str, field: &str| definition.get(room).and_then(|room| room.get(field));
            let name = at("metadata", "name").and_then(Value::as_str);
            if name == Some(except) || at("spec", "group").and_then(Value::as_str) != Some(group) {
                continue;
            }
            let names = Names::read(at("status", "acceptedNames"));
            taken.resources.extend([names.plural, names.singular].into_iter().chain(names.short_names));
            taken.kinds.extend([names.kind, names.list_kind]);
        }
        taken.resources.remove("");
        taken.kinds.remove("");
        taken
    }

    /// Adds the names of the built-in kinds of the group.
    pub fn reserve<'a>(
        &mut self,
        resources: impl IntoIterator<Item = &'a str>,
        kinds: impl IntoIterator<Item = &'a str>,
    ) {
        for (names, into) in [
            (resources.into_iter().collect::<Vec<_>>(), &mut self.resources),
            (kinds.into_iter().collect(), &mut self.kinds),
        ] {
            for name in names {
                into.insert(name.to_owned());
                self.built_in.insert(name.to_owned());
            }
        }
    }
}
