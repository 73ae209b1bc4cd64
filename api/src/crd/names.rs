//! What a kind is called, and who has taken a name already.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::strategy::Json;

/// The names of a kind: `spec.names` and `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Name in paths.
    pub plural: String,
    /// Name of one.
    pub singular: String,
    /// Kind.
    pub kind: String,
    /// Kind of its lists.
    pub list_kind: String,
    /// What people type.
    pub short_names: Vec<String>,
    /// Groups of resources it belongs to.
    pub categories: Vec<String>,
}

/// The names that others of a group hold.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
    /// Those of them that built-in kinds have: no definition ever holds one, whatever its status says.
    built_in: BTreeSet<String>,
}

/// Why not all names of a definition are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub reason: &'static str,
    pub message: String,
    /// A built-in kind has the name.
    pub is_final: bool,
}

impl Names {
    /// Reads names; what is missing is empty.
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

    /// The names these become, of which `accepted` are held already, and the last conflict with what others hold.
    pub(super) fn accept(&self, accepted: &Self, taken: &Taken) -> (Self, Option<Conflict>) {
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

impl Taken {
    /// What the definitions of `group` but that of the name `except` hold.
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

    /// Besides, what a built-in kind of the group is called.
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
