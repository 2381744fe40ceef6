//! `docs/reference/events.md`: every action and field of an event, and an example of each format.

use std::fmt::Write as _;
use std::path::Path;

use delegate_upgrader::events::{Action, Event};
use kit::page;
use serde_json::{Value, json};
use strum::VariantArray as _;

const PAGE: &str = "docs/reference/events.md";

/// When an action is recorded, and what its `reason` says.
#[rustfmt::skip]
fn words(action: Action) -> (&'static str, &'static str) {
    match action {
        Action::Upgraded => ("the new container works, and the old one has ended", ""),
        Action::RolledBack => ("as `upgraded`, to an earlier image, after `rollback`", ""),
        Action::Reconfigured => ("as `upgraded`, with the same image and other settings, after `reconfigure`", ""),
        Action::Rejected => ("a new container failed; its image is in quarantine", "[the cause](causes.md) of the failure"),
        Action::Withdrawn => ("a new container was given up, which says nothing about its image", "[the reason](reasons.md), where there is one"),
        Action::Restored => ("the old container serves again after a new one was rejected or withdrawn", ""),
        Action::Restarted => ("the engine was asked to restart an unhealthy delegate (`HEALTH_ACTION=restart`)", ""),
        Action::HealthLost => ("a delegate has been unhealthy for two health intervals", "the probe"),
        Action::HealthRegained => ("it is healthy again", "the probe"),
        Action::ImageRemoved => ("an image that no rollback needs was removed", ""),
        Action::Skipped => ("a delegate could not be served; once more with `\"resolved\":true` when that is over", "[the reason](reasons.md)"),
        Action::Paused => ("an operator paused upgrades, of one delegate or of the host", ""),
        Action::Resumed => ("an operator ended such a pause", ""),
        Action::SelfUpgraded => ("the upgrader replaced its own container (`SELF_UPGRADE`)", ""),
        Action::Test => ("someone ran `notify --test`; it is sent and not recorded", ""),
    }
}

#[test]
fn the_page_has_every_action() {
    let mut table = String::from("| action | when it is recorded | `reason` |\n|---|---|---|\n");
    for action in Action::VARIANTS {
        let (when, reason) = words(*action);
        let _ = writeln!(table, "| `{action}` | {when} | {reason} |");
    }
    page::has(PAGE, "actions", &table);
}

fn type_of(property: &Value) -> String {
    if property.get("$ref").is_some() {
        return "object".to_owned();
    }
    let kind = property["type"].as_str().unwrap();
    match property["format"].as_str() {
        Some("date-time") => "text, RFC 3339".to_owned(),
        _ if kind == "string" => "text".to_owned(),
        _ => kind.to_owned(),
    }
}

/// The schema, which another test compares with the type.
#[test]
fn the_page_has_every_field() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/event.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let required = schema["required"].as_array().unwrap();
    let mut table = String::from("| field | type | always | meaning |\n|---|---|---|---|\n");
    for (name, property) in schema["properties"].as_object().unwrap() {
        let always = if required.contains(&json!(name)) {
            "yes"
        } else {
            ""
        };
        let meaning = match name.as_str() {
            "action" => "The outcome: [the actions](#actions).",
            "reason" => "One word: see [the actions](#actions).",
            _ => property["description"].as_str().unwrap(),
        };
        let _ = writeln!(
            table,
            "| `{name}` | {} | {always} | {meaning} |",
            type_of(property)
        );
    }
    for part in ["request", "seconds"] {
        for (name, property) in schema["$defs"][part]["properties"].as_object().unwrap() {
            let meaning = property["description"].as_str().unwrap();
            let kind = type_of(property);
            let _ = writeln!(table, "| `{part}.{name}` | {kind} |  | {meaning} |");
        }
    }
    page::has(PAGE, "fields", &table);
}

fn example() -> Event {
    serde_json::from_value(json!({
        "id": "5f3c1f0f6d0a4f2b9a3e6f2f7c1d8e90", "time": "2026-11-24T21:42:00Z", "host": "build-7", "version": "0.1.0",
        "actor": "SYSTEM", "action": "upgraded", "workload": "docker-delegate", "container": "delegate-1",
        "container_id": "f2a9c0e1", "from": "harness/delegate:26.02.88404", "to": "harness/delegate:26.03.88501",
        "image_id": "sha256:51c0", "previous_image_id": "sha256:9be2",
        "message": "replaced harness/delegate:26.02.88404 with harness/delegate:26.03.88501",
        "seconds": { "pull": 41.2, "proof": 65.4, "drain": 754.6 }, "release": 3, "previous_release": 2,
    }))
    .unwrap()
}

#[test]
fn the_page_has_an_example() {
    let mut text = String::from("\n");
    for line in serde_json::to_string_pretty(&example()).unwrap().lines() {
        let _ = writeln!(text, "    {line}");
    }
    page::has(PAGE, "example", &(text + "\n"));
}
