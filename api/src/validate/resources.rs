//! Requests and limits: known names, whole amounts where parts make no sense, and requests within limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::names::is_qualified_name;
use crate::fault::Faults;
use crate::path::Path;
use crate::quantity::Quantity;
use crate::schema::nearest;

/// Resources that every node knows.
const NATIVE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE: &str = "hugepages-";

/// Checks what a container asks for; `claims` are the names of the Pod's resource claims.
pub(super) fn check(stated: &ResourceRequirements, claims: &[&str], path: &Path<'_>, faults: &mut Faults) {
    let none = BTreeMap::new();
    let limits = stated.limits.as_ref().unwrap_or(&none);
    let requests = stated.requests.as_ref().unwrap_or(&none);
    list(limits, &path.field("limits"), faults);
    // A limit is a request, too, where nothing else is said: it is wrong once.
    let own = requests.iter().filter(|(name, amount)| limits.get(*name) != Some(amount));
    entries(own, &path.field("requests"), faults);
    let requests_path = &path.field("requests");
    for (name, request) in requests {
        let Ok(request) = Quantity::of(request) else { continue };
        let limit = limits.get(name).and_then(|limit| Quantity::of(limit).ok());
        let path = &requests_path.key(name);
        match limit {
            Some(limit) if request > limit => {
                let what = format!("{request} is more than the limit of {limit}");
                faults.add(path, what, "raise the limit, or request less");
            }
            Some(limit) if request != limit && !may_overcommit(name) => {
                let what = format!("{request} is not the limit of {limit}");
                faults.add(path, what, format!("request {limit}: {name} is given in whole or not at all"));
            }
            None if !may_overcommit(name) => {
                faults.add(path, "there is no limit", format!("add the same limit for {name}"))
            }
            _ => {}
        }
    }
    let names = || limits.keys().chain(requests.keys()).map(String::as_str);
    if names().any(|name| name.starts_with(HUGE)) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        faults.add(path, "huge pages alone are not enough", "add cpu or memory");
    }
    let claims_path = &path.field("claims");
    for (index, claim) in stated.claims.iter().flatten().enumerate() {
        if !claims.contains(&claim.name.as_str()) {
            let what = format!("there is no claim `{}`", claim.name);
            faults.add(&claims_path.index(index).field("name"), what, "add it under `spec.resourceClaims`");
        }
    }
}

/// Checks the names and amounts of one list.
pub(super) fn list(amounts: &BTreeMap<String, Text>, path: &Path<'_>, faults: &mut Faults) {
    entries(amounts.iter(), path, faults);
}

fn entries<'a>(amounts: impl Iterator<Item = (&'a String, &'a Text)>, path: &Path<'_>, faults: &mut Faults) {
    for (name, text) in amounts {
        let path = &path.key(name);
        if !is_resource(name) {
            let remedy = match nearest(name, NATIVE.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    "write cpu, memory, ephemeral-storage, hugepages-2Mi or a name with a domain in front"
                        .to_owned()
                }
            };
            faults.aim(path, crate::fault::Aim::Name, format!("`{name}` is no resource"), remedy);
            continue;
        }
        match Quantity::of(text) {
            // Texts that are no amounts are noted where the shape of the object is checked.
            Err(_) => {}
            Ok(amount) if amount.is_negative() => {
                faults.add(path, format!("{amount} is negative"), "write 0 or more")
            }
            Ok(amount) if !NATIVE.contains(&name.as_str()) && !amount.is_whole() => {
                faults.add(path, format!("{amount} is not whole"), "write a whole number");
            }
            Ok(amount) => whole_pages(name, amount, path, faults),
        }
    }
}

/// Huge pages come in pages of the size in their name.
fn whole_pages(name: &str, amount: Quantity, path: &Path<'_>, faults: &mut Faults) {
    let Some(size) = name.strip_prefix(HUGE) else { return };
    match size.parse::<Quantity>().map(Quantity::units) {
        Ok(size_bytes @ 1..) if amount.units() % size_bytes == 0 => {}
        Ok(1..) => faults.add(
            path,
            format!("{amount} is no multiple of {size}"),
            "write a multiple of the page's size",
        ),
        _ => faults.add(path, format!("`{size}` is no size of a page"), "write it like hugepages-2Mi"),
    }
}

/// Native resources, huge pages, and whatever a device plugin offers under a domain of its own.
fn is_resource(name: &str) -> bool {
    let native = NATIVE.contains(&name) || name.starts_with(HUGE);
    let extended = name.contains('/') && !name.starts_with("requests.") && is_qualified_name(name);
    native || extended
}

fn may_overcommit(name: &str) -> bool {
    NATIVE.contains(&name)
}
