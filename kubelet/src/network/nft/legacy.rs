//! The firewall of iptables-legacy. Only its own program can change it. The kubelet runs the program only if the
//! firewall is in use.

use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::process::{Command, Output};

use super::dns_input::{legacy_rules, legacy_servers};
use super::firewall::comments;
use super::services::SERVICE_MARK;
use super::{Error, Family};

/// The firewall of one address family.
struct Tables {
    family: Family,
    /// The kernel's list of the tables in use, in this thread's network namespace.
    names: &'static str,
    /// The program names to try, in order.
    programs: [&'static str; 2],
}

const FAMILIES: [Tables; 2] = [
    Tables {
        family: Family::V4,
        names: "/proc/thread-self/net/ip_tables_names",
        programs: ["iptables-legacy", "iptables"],
    },
    Tables {
        family: Family::V6,
        names: "/proc/thread-self/net/ip6_tables_names",
        programs: ["ip6tables-legacy", "ip6tables"],
    },
];

/// Accepts packets of the bridge if the policy of FORWARD is to drop, and connections to Services if the kubelet serves
/// them. Accepts DNS queries of pods to `dns_servers` if the policy of INPUT is to drop. Returns the chains that were
/// changed. Does nothing if the firewall is not in use.
///
/// # Errors
/// If the firewall is in use and cannot be read or changed.
pub fn open(bridge: &str, serves_services: bool, dns_servers: &[IpAddr]) -> Result<Vec<String>, Error> {
    let mut opened = Vec::new();
    for tables in FAMILIES.iter().filter(|tables| tables.are_used()) {
        let program = tables.program()?;
        // An error of INPUT concerns DNS only, so FORWARD comes first.
        if open_forward(program, bridge, serves_services)? {
            opened.push(format!("FORWARD of {program}"));
        }
        if open_input(program, bridge, dns_servers, tables.family)? {
            opened.push(format!("INPUT (DNS) of {program}"));
        }
    }
    Ok(opened)
}

/// Accepts packets of the bridge and connections to Services if the policy of FORWARD is to drop. Returns whether rules
/// were missing.
fn open_forward(program: &'static str, bridge: &str, serves_services: bool) -> Result<bool, Error> {
    if !drops(&run(program, &["-S", "FORWARD"])?.stdout) {
        return Ok(false);
    }
    let mut is_missing = false;
    let [from, to, to_services] = rules(bridge);
    for (rule, is_wanted) in [(from, true), (to, true), (to_services, serves_services)] {
        match (has(program, &rule)?, is_wanted) {
            (false, true) => {
                change(program, "-A", &rule)?;
                is_missing = true;
            }
            (true, false) => change(program, "-D", &rule)?,
            (true, true) | (false, false) => {}
        }
    }
    Ok(is_missing)
}

/// Accepts DNS queries of pods if the policy of INPUT is to drop, and removes rules that are not needed. Returns
/// whether rules were missing.
fn open_input(
    program: &'static str,
    bridge: &str,
    dns_servers: &[IpAddr],
    family: Family,
) -> Result<bool, Error> {
    let listed = run(program, &["-S", "INPUT"])?.stdout;
    let listed = String::from_utf8_lossy(&listed);
    let is_dropping = listed.lines().any(|line| line == "-P INPUT DROP");
    let wanted = if is_dropping { dns_servers } else { &[] };
    let unwanted: Vec<IpAddr> =
        legacy_servers(bridge, &listed).into_iter().filter(|server| !wanted.contains(server)).collect();
    for rule in legacy_rules(bridge, &unwanted, family) {
        if has(program, &rule)? {
            change(program, "-D", &rule)?;
        }
    }
    let mut is_missing = false;
    for rule in legacy_rules(bridge, wanted, family) {
        if !has(program, &rule)? {
            change(program, "-A", &rule)?;
            is_missing = true;
        }
    }
    Ok(is_missing)
}

/// Removes the rules that [`open`] added.
///
/// # Errors
/// If the firewall is in use and cannot be read or changed.
pub fn close(bridge: &str) -> Result<(), Error> {
    for tables in FAMILIES.iter().filter(|tables| tables.are_used()) {
        let program = tables.program()?;
        for rule in rules(bridge) {
            if has(program, &rule)? {
                change(program, "-D", &rule)?;
            }
        }
        open_input(program, bridge, &[], tables.family)?;
    }
    Ok(())
}

impl Tables {
    fn are_used(&self) -> bool {
        // The file is missing if the kernel lacks the firewall.
        fs::read_to_string(self.names).is_ok_and(|names| names.lines().any(|name| name == "filter"))
    }

    /// The first installed program that is not a front end of nf_tables.
    fn program(&self) -> Result<&'static str, Error> {
        for program in self.programs {
            match Command::new(program).arg("--version").output() {
                Ok(output) if String::from_utf8_lossy(&output.stdout).contains("nf_tables") => {}
                Ok(_) => return Ok(program),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(program, &["--version"], error.to_string())),
            }
        }
        Err(failed(self.programs[0], &["-S", "FORWARD"], "it is not installed".to_owned()))
    }
}

/// Whether the policy of FORWARD in the listing is to drop.
fn drops(listed: &[u8]) -> bool {
    String::from_utf8_lossy(listed).lines().any(|line| line == "-P FORWARD DROP")
}

/// The arguments of the rules.
fn rules(bridge: &str) -> [Vec<String>; 3] {
    let [from, to, to_services] = comments(bridge);
    let mark = format!("{SERVICE_MARK:#x}/{SERVICE_MARK:#x}");
    let matches = [
        (vec!["-i", bridge], from),
        (vec!["-o", bridge], to),
        (vec!["-m", "mark", "--mark", &mark], to_services),
    ];
    matches.map(|(which, comment)| {
        let rest = ["-m", "comment", "--comment", &comment, "-j", "ACCEPT"];
        ["FORWARD"].into_iter().chain(which).chain(rest).map(str::to_owned).collect()
    })
}

fn has(program: &'static str, rule: &[String]) -> Result<bool, Error> {
    let arguments = arguments("-C", rule);
    let output = start(program, &arguments)?;
    match output.status.code() {
        Some(0) => Ok(true),
        // The rule does not exist; other errors have other codes.
        Some(1) => Ok(false),
        _ => Err(command_error(program, &arguments, &output)),
    }
}

fn change(program: &'static str, how: &'static str, rule: &[String]) -> Result<(), Error> {
    run(program, &arguments(how, rule)).map(drop)
}

fn arguments<'a>(how: &'static str, rule: &'a [String]) -> Vec<&'a str> {
    [how].into_iter().chain(rule.iter().map(String::as_str)).collect()
}

fn run(program: &'static str, arguments: &[&str]) -> Result<Output, Error> {
    let output = start(program, arguments)?;
    if output.status.success() { Ok(output) } else { Err(command_error(program, arguments, &output)) }
}

/// How long to wait for another program that has the lock of the tables, in seconds.
const LOCK_TIMEOUT_SECONDS: &str = "5";

/// Runs the program. It waits for the lock of the tables.
fn start(program: &'static str, arguments: &[&str]) -> Result<Output, Error> {
    let run = Command::new(program).args(["-w", LOCK_TIMEOUT_SECONDS]).args(arguments).output();
    run.map_err(|error| failed(program, arguments, error.to_string()))
}

fn command_error(program: &str, arguments: &[&str], output: &Output) -> Error {
    let message = String::from_utf8_lossy(&output.stderr);
    let message =
        if message.trim().is_empty() { output.status.to_string() } else { message.trim().to_owned() };
    failed(program, arguments, message)
}

fn failed(program: &str, arguments: &[&str], message: String) -> Error {
    Error::Legacy { command: format!("{program} {}", arguments.join(" ")), message }
}

#[cfg(test)]
mod tests {
    use super::drops;

    #[test]
    fn legacy_iptables_policy_is_parsed() {
        assert!(drops(b"-P FORWARD DROP\n-A FORWARD -i x -j ACCEPT\n"));
        assert!(!drops(b"-P FORWARD ACCEPT\n-A FORWARD -j DROP\n"));
    }
}
