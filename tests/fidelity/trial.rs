//! Tries one option: a delegate with it, two whole upgrades, and a comparison after each. The second upgrade must change
//! nothing but the image, since the last two images set the same values.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::podman;
use crate::row::Row;
use crate::surroundings::Surroundings;
use kit::lab::diff::{Upgrade, is_nothing, keys};
use kit::lab::engine::Engine;
use kit::lab::{env, static_binary};

/// An upgrade that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(300);

/// The prefix for losses in the second upgrade.
pub(crate) const SECOND: &str = "the second time: ";

/// The result for an option.
pub(crate) enum Outcome {
    Preserved,
    /// The changes.
    Lost(Vec<String>),
    /// The engine refused it in these words.
    Refused(String),
    /// The engine accepted it and does not show it: it does not know it, or gives it no meaning.
    Ignored,
}

/// A tried option, with the document of the delegate that had it.
pub(crate) struct Tried {
    pub(crate) outcome: Outcome,
    pub(crate) document: Value,
}

pub(crate) async fn try_row(row: &Row, number: usize, around: &Surroundings) -> Tried {
    let name = row.name(number);
    let tried = try_named(row, &name, around).await;
    around.engine.clear(&name).await;
    tried
}

async fn try_named(row: &Row, name: &str, around: &Surroundings) -> Tried {
    let engine = &around.engine;
    let (images, defaults, least) = around.of(row.images);
    let mut asked = row.body(name, &images[0]);
    if let Err(words) = start(row, name, &asked, around).await {
        return Tried {
            outcome: Outcome::Refused(words),
            document: Value::Null,
        };
    }
    let first = engine.inspect(name).await.unwrap_or_default();
    let end = |outcome| Tried {
        outcome,
        document: first.clone(),
    };
    if first["State"]["Status"] != "running" {
        let why = format!("it does not run: {}", first["State"]);
        return end(Outcome::Refused(why));
    }
    if !shows(row, &first, least) {
        return end(Outcome::Ignored);
    }
    for (network, endpoint) in &row.connect {
        asked["NetworkingConfig"]["EndpointsConfig"][network] = endpoint.clone();
    }
    let longest = if around.is_podman {
        podman::longest(row.title)
    } else {
        None
    };
    let longest = longest.unwrap_or(LONGEST);
    let mut old = first.clone();
    let mut losses = Vec::new();
    for (number, [before, after]) in [[0, 1], [1, 2]].into_iter().enumerate() {
        let told = ["", SECOND][number];
        let new = match upgrade(name, &old, &images[after], engine, longest).await {
            Ok(new) => new,
            Err(why) => {
                losses.push(format!("{told}{why}"));
                break;
            }
        };
        let upgrade = Upgrade {
            asked: &asked,
            old: &old,
            new: &new,
            old_image: &defaults[before],
            new_image: &defaults[after],
        };
        let mut found = upgrade.losses();
        found.extend(unrest(name, &new, engine).await);
        losses.extend(found.iter().map(|loss| format!("{told}{loss}")));
        old = new;
    }
    end(if losses.is_empty() {
        Outcome::Preserved
    } else {
        Outcome::Lost(losses)
    })
}

/// The delegate's document after an upgrade, or the reason why there was no upgrade.
async fn upgrade(
    name: &str,
    old: &Value,
    image: &str,
    engine: &Engine,
    longest: Duration,
) -> Result<Value, String> {
    let said = once(name, image, longest).await;
    let new = engine.inspect(name).await;
    let new = new.ok_or_else(|| format!("{name} is gone: {said}"))?;
    if new["Config"]["Image"] != *image || new["Id"] == old["Id"] {
        return Err(format!("not upgraded: {said}"));
    }
    Ok(new)
}

/// The problems that remain after an upgrade.
async fn unrest(name: &str, new: &Value, engine: &Engine) -> Vec<String> {
    let mut found = Vec::new();
    if new["State"]["Status"] != "running" {
        found.push(format!("it is {}", new["State"]["Status"]));
    }
    let left = engine.list(name).await;
    if left.len() > 1 {
        let names: Vec<_> = left
            .iter()
            .map(|row| format!("{} ({})", row.name, row.state))
            .collect();
        found.push(format!("left over: {}", names.join(", ")));
    }
    found
}

/// Creates, connects and starts a delegate; the error is the engine's refusal.
async fn start(row: &Row, name: &str, body: &Value, around: &Surroundings) -> Result<(), String> {
    let mut calls = vec![(format!("/containers/create?name={name}"), Some(body.clone()))];
    for (network, endpoint) in &row.connect {
        let body = json!({ "Container": name, "EndpointConfig": endpoint });
        calls.push((format!("/networks/{network}/connect"), Some(body)));
    }
    calls.push((format!("/containers/{name}/start"), None));
    for (path, body) in calls {
        let (status, answer) = around.engine.call("POST", &path, body.as_ref()).await;
        if status >= 400 {
            let words = answer["message"].as_str().unwrap_or_default();
            return Err(format!("{status} {words}"));
        }
    }
    Ok(())
}

/// Whether the document of a delegate with the option differs from one without it at every key the option has.
fn shows(row: &Row, document: &Value, least: &Value) -> bool {
    let at = |document: &Value, key: &str| {
        let (part, key) = key.split_once('/').unwrap_or_default();
        if part != "Endpoint" {
            return document[part][key].clone();
        }
        let networks = document["NetworkSettings"]["Networks"].as_object();
        let endpoints = networks.into_iter().flatten();
        endpoints.map(|(_, endpoint)| endpoint[key].clone()).collect()
    };
    let keys = row.keys();
    // An empty value cannot show. A network mode is mostly there only for the endpoint's settings.
    let mut visible = keys
        .iter()
        .filter(|key| !is_nothing(&row.asked(key)))
        .filter(|key| *key != "HostConfig/NetworkMode" || keys.len() == 1);
    visible.all(|key| {
        let (asked, shown) = (row.asked(key), at(document, key));
        match (key.split_once('/').unwrap_or_default(), shown.as_array()) {
            // There is always a MAC address: only the owner's own counts.
            (("Endpoint", "MacAddress"), Some(all)) => all.contains(&asked),
            (("Endpoint", _), Some(all)) => all.iter().any(|shown| knows(shown, &asked)),
            _ => (shown != at(least, key) || shown == asked) && knows(&shown, &asked),
        }
    })
}

/// Whether every requested part has some value in the document.
fn knows(shown: &Value, asked: &Value) -> bool {
    match (asked, shown) {
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().all(|(field, asked)| knows(&shown[field], asked))
        }
        (Value::Array(entries), Value::Array(all)) if entries.len() == all.len() => {
            entries.iter().zip(all).all(|(asked, shown)| knows(shown, asked))
        }
        // This removes the image's entry point.
        (asked, shown) if *asked == json!([""]) => is_nothing(shown),
        (Value::Bool(false), _) => true,
        (Value::Number(number), _) if number.as_f64() == Some(0.0) => true,
        _ => is_nothing(asked) || (!is_nothing(shown) && *shown != Value::Bool(false) && *shown != 0),
    }
}

/// Runs the whole `delegate-upgrader once` for one delegate; returns how it ended, and its last words.
async fn once(name: &str, image: &str, longest: Duration) -> String {
    let child = Command::new(static_binary("delegate-upgrader"))
        .arg("once")
        .env_clear()
        .env("DOCKER_HOST", env("DOCKER_HOST"))
        .env("UPGRADER_WORKLOAD_NAME", name)
        .env("PUBLISHED_IMAGE", image)
        // With some options the delegate cannot be reached.
        .env("HEALTH_PROBE", "running")
        .env("UPGRADE_HEALTHY_TIME", "1s")
        .env("UPGRADE_HEALTHY_DEADLINE", "2m")
        .env("HEALTH_INTERVAL", "1s")
        .env("CONTAINER_STOP_TIMEOUT", "30s")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .output();
    let Ok(output) = timeout(longest, child).await else {
        return format!("it hung for {} s", longest.as_secs());
    };
    let output = output.expect("the upgrader runs");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    let lines: Vec<_> = text.lines().collect();
    let last = lines.len().saturating_sub(12);
    format!("{}\n    | {}", output.status, lines[last..].join("\n    | "))
}

/// All keys of a document, in the form in which rows name them.
pub(crate) fn shown(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["Config", "HostConfig"] {
        let keys = keys(&document[part], &Value::Null);
        found.extend(keys.into_iter().map(|key| format!("{part}/{key}")));
    }
    let networks = document["NetworkSettings"]["Networks"].as_object();
    for (_, endpoint) in networks.into_iter().flatten() {
        let keys = keys(endpoint, &Value::Null);
        found.extend(keys.into_iter().map(|key| format!("Endpoint/{key}")));
    }
    found
}
