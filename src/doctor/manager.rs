//! Who says what is published, what that means for each delegate, and whether the registry has it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Checks, Delegate, Engine};
use crate::app::{self, ConfiguredSource};
use crate::config::{Settings, Source};
use crate::engine::{API_CALLS, EngineError};
use crate::image::{ImageReference, Target, manager_reference, resolve};
use crate::manager::{ImageSource, clock_problem};
use crate::rollout::problem;
use crate::rollout::reason::Reason;

/// Asked about where no delegate is found.
const STOCK: &str = "harness/delegate:latest";

/// The call that looks into a registry.
const LOOKUP: (&str, &str) = ("GET", "/distribution/{name}/json");

/// An image that some delegates should get, with the document of the one that they have.
pub(super) struct Wanted {
    names: Vec<String>,
    /// Whether nothing can be decided without looking into the registry.
    moves: bool,
    image_document: Option<Value>,
}

/// The targets by reference.
pub(super) type Targets = BTreeMap<String, (ImageReference, Wanted)>;

pub(super) async fn published(settings: &Settings, delegates: &[Delegate], found: &mut Checks) -> Targets {
    let mut targets = Targets::new();
    // Without leave to upgrade, so that the Manager does not take this for an upgrader at work.
    let source = match app::source(settings, false) {
        Ok(Some(source)) => source,
        Ok(None) => {
            found.ok("manager", "none is configured, health checks only");
            return targets;
        }
        Err(error) => {
            found.fail("manager", error.to_string());
            return targets;
        }
    };
    let mut queries: BTreeMap<(String, String), Vec<&Delegate>> = BTreeMap::new();
    for delegate in delegates {
        if delegate.opted_out {
            found.ok(&delegate.name, Reason::OptedOut.to_string());
            continue;
        }
        let key = (delegate.group.clone(), delegate.image.clone());
        queries.entry(key).or_default().push(delegate);
    }
    if delegates.is_empty() {
        let name = settings.workload_names.first().cloned().unwrap_or_default();
        queries.insert((name, STOCK.to_owned()), Vec::new());
    }
    let (mut answered, mut failed) = (None, false);
    for ((delegate, image), replicas) in queries {
        let current: ImageReference = match image.parse() {
            Ok(current) => current,
            Err(problem) => {
                for replica in replicas {
                    let image = image.clone();
                    let problem = problem.to_string();
                    found.fail(
                        &replica.name,
                        Reason::UnknownReference { image, problem }.to_string(),
                    );
                }
                continue;
            }
        };
        let asked = manager_reference(&current, &settings.target);
        match source.published(&asked, &delegate).await {
            Err(error) => {
                let whose = if replicas.is_empty() {
                    String::new()
                } else {
                    format!(" (asked for {delegate}, which runs {image})")
                };
                found.fail("manager", format!("{error}{whose}"));
                failed = true;
                if error.is_outage() {
                    break;
                }
            }
            Ok(published) => {
                for replica in replicas {
                    tell(
                        replica,
                        &resolve(&published, &current, &settings.target),
                        &published,
                        &mut targets,
                        found,
                    );
                }
                answered = Some(published);
            }
        }
    }
    if let (Some(published), false) = (answered, failed) {
        match &settings.source {
            Source::Fixed(_) => found.ok("manager", format!("not asked: PUBLISHED_IMAGE is {published}")),
            _ => found.ok(
                "manager",
                format!("it answers, the token is known; published is {published}"),
            ),
        }
    }
    clock(&source, found);
    targets
}

fn tell(
    delegate: &Delegate,
    resolved: &Target,
    published: &ImageReference,
    targets: &mut Targets,
    found: &mut Checks,
) {
    let (name, image) = (delegate.name.as_str(), &delegate.image);
    match resolved {
        Target::Current => found.ok(name, format!("runs what is published, {image}")),
        Target::CustomImage => found.warn(
            name,
            format!(
                "runs {image}, which is not Harness's: {published} does not replace it; set IMAGE_REPOSITORY to the \
                 repository of that build to have it follow the published tag"
            ),
        ),
        Target::Unresolvable(problem) => found.fail(name, problem.clone()),
        Target::HeldBack(target, max) => {
            let (image, max) = (target.to_string(), max.clone());
            found.ok(name, Reason::HeldBack { image, max }.to_string());
        }
        Target::NotPinned(target) => {
            let image = target.to_string();
            found.fail(name, Reason::NotPinned { image }.to_string());
        }
        Target::Replace(target) | Target::CheckDigest(target) => {
            found.ok(name, format!("runs {image}, its target is {target}"));
            let wanted = targets.entry(target.to_string()).or_insert_with(|| {
                let wanted = Wanted {
                    names: Vec::new(),
                    moves: false,
                    image_document: delegate.image_document.clone(),
                };
                (target.clone(), wanted)
            });
            wanted.1.names.push(name.to_owned());
            wanted.1.moves |= matches!(resolved, Target::CheckDigest(_));
        }
    }
}

fn clock(source: &ConfiguredSource, found: &mut Checks) {
    let ConfiguredSource::Manager(manager) = source else {
        return;
    };
    let Some(skew) = manager.skew_seconds() else {
        return;
    };
    match clock_problem(skew) {
        Some(problem) => found.fail("clock", problem),
        None => found.ok("clock", "this host's clock and the Manager's agree"),
    }
}

/// Whether the registry has each target, for the platform that its delegates run on.
pub(super) async fn examine_targets(
    engine: &Engine,
    settings: &Settings,
    targets: &Targets,
    found: &mut Checks,
) {
    if settings.disable_auto_upgrade {
        return;
    }
    for (target, wanted) in targets.values() {
        let about = "registry";
        let names = wanted.names.join(", ");
        match engine.distribution(target).await {
            Err(EngineError::NotFound(words)) => {
                let registry = target.registry();
                found.fail(
                    about,
                    format!("{registry} has no {target}, for {names} ({words}): put it there, or publish another image"),
                );
            }
            Err(_) if is_kept_from_looking(engine).await => {
                let (method, path) = LOOKUP;
                let text = format!("{target}, for {names}, cannot be looked up without {method} {path}");
                if wanted.moves {
                    found.fail(
                        about,
                        format!("{text}, and its tag moves: allow it in the socket proxy"),
                    );
                } else {
                    found.warn(about, text);
                }
            }
            Err(error) => {
                let registry = target.registry();
                let problem = problem(&error, registry);
                found.fail(
                    about,
                    format!("{target}, for {names}, cannot be looked up: {problem}; does the engine reach {registry}?"),
                );
            }
            Ok(answer) => match other_platforms(&answer, wanted.image_document.as_ref()) {
                Some((needed, offered)) => {
                    found.fail(
                        "platform",
                        format!("{target} is for {offered}: publish one for {needed}, which {names} runs on"),
                    );
                }
                None => found.ok(about, format!("it has {target}, for {names}")),
            },
        }
    }
}

/// Whether a socket proxy is in the way of looking into registries. Upgrades to a version can do without.
async fn is_kept_from_looking(engine: &Engine) -> bool {
    let right = API_CALLS
        .iter()
        .find(|right| (right.method, right.path) == LOOKUP);
    match right {
        Some(right) => matches!(engine.refusal(right).await, Ok(Some(_))),
        None => false,
    }
}

/// What is needed and what is offered instead, where the registry tells of platforms and none fits.
fn other_platforms(distribution: &Value, image: Option<&Value>) -> Option<(String, String)> {
    let text = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let image = image?;
    let needed = format!("{}/{}", text(image, "Os"), text(image, "Architecture"));
    let platforms = distribution.get("Platforms")?.as_array()?;
    let offered: Vec<String> = platforms
        .iter()
        .map(|platform| format!("{}/{}", text(platform, "os"), text(platform, "architecture")))
        .collect();
    // An image may tell of no platform, and so may a registry.
    let tells = offered.iter().any(|platform| platform.len() > 1) && needed.len() > 1;
    (tells && !offered.contains(&needed)).then(|| (needed, offered.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_platform_is_told_and_one_that_nobody_tells_of_is_not() {
        let image = json!({ "Os": "linux", "Architecture": "amd64" });
        let offers = |platforms: Value| other_platforms(&json!({ "Platforms": platforms }), Some(&image));
        let arm = json!({ "os": "linux", "architecture": "arm64", "variant": "v8" });
        let amd = json!({ "os": "linux", "architecture": "amd64" });
        let expected = ("linux/amd64".to_owned(), "linux/arm64".to_owned());
        assert_eq!(offers(json!([arm])), Some(expected));
        assert_eq!(offers(json!([arm, amd])), None);
        assert_eq!(offers(json!([{ "os": "", "architecture": "" }])), None);
        assert_eq!(offers(json!([])), None);
        assert_eq!(offers(Value::Null), None);
        assert_eq!(other_platforms(&json!({ "Platforms": [arm] }), None), None);
    }
}
