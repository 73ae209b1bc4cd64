//! The firewall of iptables before nf_tables, which has no netlink and tells nobody what becomes of it: the one place where a
//! program is run, where that firewall is in use.

use std::fs;
use std::io::ErrorKind;
use std::process::{Command, Output};

use super::Error;
use super::firewall::comments;

/// One family of it.
struct Tables {
    /// Where the kernel names those that are in use, in the network namespace of this thread.
    names: &'static str,
    /// The program that changes them, and the name it has where there is no other.
    programs: [&'static str; 2],
}

const FAMILIES: [Tables; 2] = [
    Tables { names: "/proc/thread-self/net/ip_tables_names", programs: ["iptables-legacy", "iptables"] },
    Tables { names: "/proc/thread-self/net/ip6_tables_names", programs: ["ip6tables-legacy", "ip6tables"] },
];

/// Lets pods behind a bridge through where the older firewall drops what no rule decides on; the chains that had to be opened. Does
/// nothing where it is not in use.
///
/// # Errors
/// It is in use and cannot be asked or changed.
pub fn open(bridge: &str) -> Result<Vec<String>, Error> {
    let mut opened = Vec::new();
    for tables in FAMILIES.iter().filter(|tables| tables.are_used()) {
        let program = tables.program()?;
        if !drops(&run(program, &["-S", "FORWARD"])?.stdout) {
            continue;
        }
        let mut is_open = true;
        for rule in rules(bridge) {
            if !has(program, &rule)? {
                change(program, "-A", &rule)?;
                is_open = false;
            }
        }
        opened.extend((!is_open).then(|| format!("FORWARD of {program}")));
    }
    Ok(opened)
}

/// Takes away what [`open`] put there.
///
/// # Errors
/// It is in use and cannot be asked or changed.
pub fn close(bridge: &str) -> Result<(), Error> {
    for tables in FAMILIES.iter().filter(|tables| tables.are_used()) {
        let program = tables.program()?;
        for rule in rules(bridge) {
            if has(program, &rule)? {
                change(program, "-D", &rule)?;
            }
        }
    }
    Ok(())
}

impl Tables {
    fn are_used(&self) -> bool {
        // Where the kernel has none of it, there is no such file.
        fs::read_to_string(self.names).is_ok_and(|names| names.lines().any(|name| name == "filter"))
    }

    /// The program that is there and is not that of nf_tables under the same name.
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

/// Whether a list of rules begins with the policy to drop.
fn drops(listed: &[u8]) -> bool {
    String::from_utf8_lossy(listed).lines().any(|line| line == "-P FORWARD DROP")
}

/// What the two rules say.
fn rules(bridge: &str) -> [Vec<String>; 2] {
    let [from, to] = comments(bridge);
    [("-i", from), ("-o", to)].map(|(way, comment)| {
        let rule = ["FORWARD", way, bridge, "-m", "comment", "--comment", &comment, "-j", "ACCEPT"];
        rule.map(str::to_owned).to_vec()
    })
}

fn has(program: &'static str, rule: &[String]) -> Result<bool, Error> {
    let arguments = arguments("-C", rule);
    let output = start(program, &arguments)?;
    match output.status.code() {
        Some(0) => Ok(true),
        // No such rule; what is wrong with the question has other numbers.
        Some(1) => Ok(false),
        _ => Err(told(program, &arguments, &output)),
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
    if output.status.success() { Ok(output) } else { Err(told(program, arguments, &output)) }
}

/// How long others may be at the same tables.
const WITHIN_SECONDS: &str = "5";

/// Runs it, waiting for others that are at the same tables.
fn start(program: &'static str, arguments: &[&str]) -> Result<Output, Error> {
    let run = Command::new(program).args(["-w", WITHIN_SECONDS]).args(arguments).output();
    run.map_err(|error| failed(program, arguments, error.to_string()))
}

fn told(program: &str, arguments: &[&str], output: &Output) -> Error {
    let told = String::from_utf8_lossy(&output.stderr);
    let told = if told.trim().is_empty() { output.status.to_string() } else { told.trim().to_owned() };
    failed(program, arguments, told)
}

fn failed(program: &str, arguments: &[&str], told: String) -> Error {
    Error::Legacy { command: format!("{program} {}", arguments.join(" ")), told }
}

#[cfg(test)]
mod tests {
    use super::drops;

    #[test]
    fn a_policy_is_read() {
        assert!(drops(b"-P FORWARD DROP\n-A FORWARD -i x -j ACCEPT\n"));
        assert!(!drops(b"-P FORWARD ACCEPT\n-A FORWARD -j DROP\n"));
    }
}
