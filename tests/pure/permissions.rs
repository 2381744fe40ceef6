//! The page on permissions lists all calls that the upgrader makes to an engine, and no others.

use std::fmt::Write as _;

use delegate_upgrader::engine::{API_CALLS, MUTABLE_TAGS, Purpose, SWARM};
use kit::page;

/// One pattern for each method, as wollomatic's socket-proxy expects them.
fn patterns(is_needed: fn(Purpose) -> bool) -> String {
    let mut lines = String::new();
    for method in ["GET", "HEAD", "POST", "DELETE"] {
        let mut paths: Vec<String> = Vec::new();
        for call in API_CALLS
            .iter()
            .filter(|call| call.method == method && is_needed(call.purpose))
        {
            let path = call.path;
            let path = path
                .trim_start_matches('/')
                .replace("{id}", "[^/]+")
                // The names of the upgrader's own volumes begin this way.
                .replace("volumes/{name}", r"volumes/delegate-upgrader\.[^/]+")
                .replace("{name}", ".+");
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        if !paths.is_empty() {
            let _ = writeln!(
                lines,
                "      - '-allow{method}=(/v1\\.[0-9]+)?/({})'",
                paths.join("|")
            );
        }
    }
    format!("\n    command:\n{lines}\n")
}

const PAGE: &str = "docs/usage/permissions.md";

#[test]
fn the_documentation_lists_every_call() {
    let mut table = String::from("| call | needed for |\n|---|---|\n");
    for call in API_CALLS {
        let purpose = match call.purpose {
            Purpose::HealthChecks => "everything",
            Purpose::Upgrades => "upgrades",
            Purpose::Optional(what) => what,
            Purpose::Setting(setting) => &format!("`{setting}`"),
        };
        let health_only = match (call.compares_tags, purpose) {
            (false, _) => String::new(),
            (true, MUTABLE_TAGS) => ", also with health checks only".to_owned(),
            (true, _) => format!("; with health checks only, {MUTABLE_TAGS}"),
        };
        let _ = writeln!(
            table,
            "| `{} {}` | {purpose}{health_only} |",
            call.method, call.path
        );
    }
    page::has(PAGE, "calls", &table);
}

#[test]
fn the_documentation_has_the_patterns_of_every_call() {
    page::has(
        PAGE,
        "watch",
        &patterns(|purpose| purpose == Purpose::HealthChecks),
    );
    let is_needed = |purpose| !matches!(purpose, Purpose::Setting(_) | Purpose::Optional(SWARM));
    page::has(PAGE, "upgrade", &patterns(is_needed));
}
