//! Validates resource requests and limits.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::names::is_qualified_name;
use crate::field_error::FieldErrors;
use crate::path::Path;
use crate::quantity::Quantity;
use crate::schema::nearest;

/// Resource names without a domain that a container may request. Huge pages come in addition, see [`HUGE`].
const NATIVE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE: &str = "hugepages-";

/// Validates the resources of a container; `claims` are the resource claims of the Pod.
pub(super) fn check(
    stated: &ResourceRequirements,
    claims: &BTreeSet<&str>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let none = BTreeMap::new();
    let limits = stated.limits.as_ref().unwrap_or(&none);
    let requests = stated.requests.as_ref().unwrap_or(&none);
    list(limits, &path.field("limits"), errors);
    // Requests that equal the limit are skipped, so that each error is reported once.
    let own = requests.iter().filter(|(name, amount)| limits.get(*name) != Some(amount));
    entries(own, &path.field("requests"), errors);
    let requests_path = &path.field("requests");
    for (name, request) in requests {
        let Ok(request) = Quantity::of(request) else { continue };
        let limit = limits.get(name).and_then(|limit| Quantity::of(limit).ok());
        let path = &requests_path.key(name);
        match limit {
            Some(limit) if request > limit => {
                let what = format!("{request} is more than the limit of {limit}");
                errors.add(path, what, "raise the limit, or request less");
            }
            Some(limit) if request != limit && !may_overcommit(name) => {
                let what = format!("{request} is not the limit of {limit}");
                errors.add(path, what, format!("request {limit}: {name} cannot be overcommitted"));
            }
            None if !may_overcommit(name) => {
                errors.add(path, "there is no limit", format!("add the same limit for {name}"))
            }
            _ => {}
        }
    }
    let names = || limits.keys().chain(requests.keys()).map(String::as_str);
    if names().any(|name| name.starts_with(HUGE)) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errors.add(path, "huge pages require cpu or memory too", "add cpu or memory");
    }
    let claims_path = &path.field("claims");
    for (index, claim) in stated.claims.iter().flatten().enumerate() {
        if !claims.contains(claim.name.as_str()) {
            let what = format!("there is no claim `{}`", claim.name);
            errors.add(&claims_path.index(index).field("name"), what, "add it under `spec.resourceClaims`");
        }
    }
}

/// Validates the names and quantities of one list.
pub(super) fn list(amounts: &BTreeMap<String, Text>, path: &Path<'_>, errors: &mut FieldErrors) {
    entries(amounts.iter(), path, errors);
}

fn entries<'a>(
    amounts: impl Iterator<Item = (&'a String, &'a Text)>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    for (name, text) in amounts {
        let path = &path.key(name);
        if !is_resource(name) {
            let known = if errors.is_full() { 0 } else { NATIVE.len() };
            let remedy = match nearest(name, NATIVE.into_iter().take(known)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write cpu, memory, ephemeral-storage, hugepages-2Mi or a name with a domain prefix"
                    .to_owned(),
            };
            errors.add_at(
                path,
                crate::field_error::Target::Name,
                format!("`{name}` is not a resource"),
                remedy,
            );
            continue;
        }
        match Quantity::of(text) {
            // The type check reports invalid quantities.
            Err(_) => {}
            Ok(amount) if amount.is_negative() => {
                errors.add(path, format!("{amount} is negative"), "write 0 or more")
            }
            Ok(amount) if !NATIVE.contains(&name.as_str()) && !amount.is_whole() => {
                errors.add(path, format!("{amount} is not whole"), "write a whole number");
            }
            Ok(amount) => whole_pages(name, amount, path, errors),
        }
    }
}

/// Requires that an amount of huge pages is a multiple of the page size in its name.
fn whole_pages(name: &str, amount: Quantity, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(size) = name.strip_prefix(HUGE) else { return };
    match size.parse::<Quantity>().map(Quantity::units) {
        Ok(size_bytes @ 1..) if amount.units() % size_bytes == 0 => {}
        Ok(1..) => errors.add(
            path,
            format!("{amount} is not a multiple of {size}"),
            "write a multiple of the page's size",
        ),
        _ => errors.add(path, format!("`{size}` is not a page size"), "write it like hugepages-2Mi"),
    }
}

/// True for native resources, huge pages and extended resources.
fn is_resource(name: &str) -> bool {
    let native = NATIVE.contains(&name) || name.starts_with(HUGE);
    let extended = name.contains('/') && !name.starts_with("requests.") && is_qualified_name(name);
    native || extended
}

fn may_overcommit(name: &str) -> bool {
    NATIVE.contains(&name)
}
