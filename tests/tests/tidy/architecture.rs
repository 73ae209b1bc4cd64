//! Reads the tables of crates and modules in ARCHITECTURE.md.

pub const PAGE: &str = "ARCHITECTURE.md";

/// A crate and the dependencies that it may have.
#[derive(Debug, PartialEq, Eq)]
pub struct Crate {
    pub name: String,
    /// Crates of the workspace that it may import.
    pub may: Vec<String>,
    /// Other crates that it must not depend on.
    pub never: Vec<String>,
    pub line: usize,
}

/// A top-level module and its rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    pub name: String,
    /// Paths that it may import, or `None` for all modules before it.
    pub may: Option<Vec<String>>,
    /// Text that its code must not contain.
    pub never: Vec<&'static str>,
    pub line: usize,
}

/// Words of the second column that restrict the code of a module, and the text that they forbid.
const PROPERTIES: &[(&str, &[&str])] = &[
    ("Pure", &["tokio", "async ", ".await", "tracing", "::now()", "rand::", "std::fs"]),
    ("Sync", &["tokio", "async ", ".await"]),
    ("clockless", &["::now()"]),
];

/// The table under "Crates".
pub fn crates(page: &str) -> Vec<Crate> {
    let rows = rows(page).into_iter().filter(|row| row.section == "Crates" && row.cells.len() > 3);
    rows.map(|row| Crate {
        name: quoted(row.cells[0]).concat(),
        may: owned(quoted(row.cells[2])),
        never: owned(quoted(row.cells[3])),
        line: row.line,
    })
    .collect()
}

/// The modules of a crate in import order: the table under "Modules of CRATE", or its row under "other crates".
pub fn modules(page: &str, name: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    for row in rows(page) {
        let Some(subject) = row.section.strip_prefix("Modules of ") else { continue };
        if subject == "the other crates" {
            let own = row.cells.len() > 1 && quoted(row.cells[0]) == [name];
            let names = if own { quoted(row.cells[1]) } else { Vec::new() };
            let all = names.into_iter();
            modules.extend(all.map(|name| Module {
                name: name.into(),
                may: None,
                never: Vec::new(),
                line: row.line,
            }));
        } else if subject.trim_start_matches("the ").trim_matches('`') == name {
            let purpose = row.cells.get(1).copied().unwrap_or_default();
            let last = purpose.rsplit(". ").next().unwrap_or_default().to_lowercase();
            let has = |property: &str| last.split(", ").any(|word| word == property.to_lowercase());
            let never = PROPERTIES.iter().filter(|(property, _)| has(property)).flat_map(|(_, never)| *never);
            let may = row.cells.get(2).filter(|cell| **cell != "above").map(|cell| owned(quoted(cell)));
            modules.extend(quoted(row.cells[0]).into_iter().map(|name| Module {
                name: name.trim_end_matches('/').to_owned(),
                may: may.clone(),
                never: never.clone().copied().collect(),
                line: row.line,
            }));
        }
    }
    modules
}

/// A row of a table, without the heading row and the line below it.
struct Row<'a> {
    /// The heading above the table.
    section: &'a str,
    cells: Vec<&'a str>,
    line: usize,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let mut section = "";
    let mut rows = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        }
        let cells =
            line.strip_prefix("| `").map(|_| line.trim_matches('|').split('|').map(str::trim).collect());
        rows.extend(cells.map(|cells| Row { section, cells, line: number + 1 }));
    }
    rows
}

/// The texts in backticks.
pub fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{crates, modules};

    const PAGE: &str = "\
## Crates
| crate | purpose | may import | must not depend on |
|---|---|---|---|
| `a` | x | | `tokio` |
| `b` | y | `a` | |
## Modules of `a`
| module | purpose | may import |
|---|---|---|
| `one/`, `two` | first. Pure | |
| `three` | calls `one`. Sync, clockless | `one::X` |
| `four` | pure in part | above |
## Modules of the other crates
| crate | modules |
|---|---|
| `b` | `x`, `y` |
";

    #[test]
    fn table_rows_are_parsed_as_rules() {
        let crates = crates(PAGE);
        assert_eq!(crates.len(), 2);
        assert_eq!(
            (&crates[0].never[0], &crates[1].may[0], crates[1].line),
            (&"tokio".into(), &"a".into(), 5)
        );
        let own = modules(PAGE, "a");
        let names: Vec<&str> = own.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "three", "four"]);
        assert_eq!((&own[0].may, &own[2].may), (&Some(Vec::new()), &Some(vec!["one::X".to_owned()])));
        assert!(own[1].never.contains(&"std::fs") && own[2].never.contains(&"::now()"));
        assert!(own[3].may.is_none() && own[3].never.is_empty());
        assert_eq!(modules(PAGE, "b").len(), 2);
    }
}
