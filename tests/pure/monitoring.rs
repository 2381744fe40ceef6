//! The dashboard and the alerts of `examples/monitoring` use metrics that the program exports.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use delegate_upgrader::rollout::reason::ReasonKind;
use serde_json::Value;

use crate::reference::kinds;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/monitoring")
        .join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(file(name)).unwrap()
}

/// All metrics of this program in a text, without the suffix of a histogram's series.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    let ours = words.filter(|word| word.starts_with("delegate_upgrader_"));
    let base = |word: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        let end = ends.iter().find_map(|end| word.strip_suffix(end));
        end.unwrap_or(word).to_owned()
    };
    ours.map(base).collect()
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_is_exported() {
    let known: BTreeSet<String> = kit::page::metrics().into_iter().collect();
    for name in ["dashboard.json", "alerts.yml", "alerts_test.yml"] {
        let used = metrics_in(&text(name));
        let unknown: Vec<&String> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        assert!(used.len() >= 8, "{name}: {used:?}");
    }
}

#[test]
fn dashboard_panels_use_its_data_source() {
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel}");
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.contains("instance=~\"$instance\""), "{expression}");
        }
    }
    assert!(ids.len() > 20, "{ids:?}");
}

#[test]
fn the_alerts_cover_exactly_the_failure_reasons() {
    let failures = kinds().filter(|kind| kind.is_failure());
    let failures: BTreeSet<&str> = failures.map(ReasonKind::as_str).collect();
    for (name, begin) in [("alerts.yml", "reason=~\""), ("dashboard.json", "reason=~\\\"")] {
        let text = text(name);
        let (_, rest) = text.split_once(begin).unwrap();
        let listed = rest.split(['"', '\\']).next().unwrap().split('|').collect();
        assert_eq!(failures, listed, "{name}");
    }
}

/// Runs promtool here, if it is installed; `make surroundings` installs it.
fn promtool(arguments: &[&str]) {
    let ran = Command::new("promtool")
        .args(arguments)
        .current_dir(file(""))
        .output();
    let Ok(ran) = ran else {
        assert!(env::var_os("LAB_BROWSER").is_none(), "promtool is not installed");
        println!("promtool is not installed: skipped");
        return;
    };
    let output = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success(), "{arguments:?}: {output}");
}

#[test]
fn promtool_accepts_the_rules() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["check", "config", "prometheus.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
}

#[test]
fn each_alert_is_tested_and_says_what_to_do() {
    let (rules, tests) = (text("alerts.yml"), text("alerts_test.yml"));
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert_eq!(alerts.len(), 14);
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        for part in ["summary: ", "description: ", "severity: "] {
            assert!(alert.contains(part), "{name} has no {part}");
        }
        let fires = format!("alertname: {name}\n        exp_alerts:");
        assert!(tests.contains(&fires), "{name} is not tested");
    }
}
