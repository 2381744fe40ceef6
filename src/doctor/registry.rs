//! Checks that each registry has the target images of its delegates, for their platforms.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::time::timeout;

use super::engine::Host;
use super::{Checks, PATIENCE};
use crate::document::{image_platform, offered_platforms};
use crate::engine::{DockerEngine, Engine as _, EngineError};
use crate::image::ImageReference;
use crate::rollout::Rollout;
use crate::rollout::reason::Reason;
use crate::text::duration;

/// The engine's call that looks up an image in its registry.
const LOOKUP: &str = "/distribution/{name}/json";

/// Looks up each target image in its registry, by way of the engine.
pub(super) async fn check(host: &Host, targets: &[(&Rollout, ImageReference)], checks: &mut Checks) {
    let engine = &host.engine;
    let mut by_reference: BTreeMap<String, (&ImageReference, Vec<&Rollout>)> = BTreeMap::new();
    for (rollout, reference) in targets {
        let wanted = by_reference.entry(reference.normalised());
        wanted.or_insert((reference, Vec::new())).1.push(rollout);
    }
    for (reference, rollouts) in by_reference.values() {
        let (subject, registry) = ("registry", reference.registry());
        let names: Vec<&str> = rollouts.iter().map(|rollout| rollout.name.as_str()).collect();
        let delegates = names.join(", ");
        let looked_up = timeout(PATIENCE, engine.distribution(reference)).await;
        match looked_up.unwrap_or(Err(EngineError::TimedOut(PATIENCE))) {
            Err(EngineError::NotFound(words)) => checks.fail(
                subject,
                format!(
                    "{registry} does not have {reference}, for {delegates} ({words}): push it there, or publish another \
                     image"
                ),
            ),
            // The image of a version can be pulled without looking it up.
            Err(_) if !host.permits(LOOKUP) => {
                checks.warn(
                    subject,
                    format!("cannot look up {reference}, for {delegates}, without GET {LOOKUP}"),
                );
            }
            Err(EngineError::TimedOut(_)) => checks.warn(
                subject,
                format!(
                    "{registry} has not answered for {reference} within {}; check that the engine can reach it",
                    duration::text(PATIENCE)
                ),
            ),
            Err(error) => {
                let problem = error.explain(registry);
                checks.fail(
                    subject,
                    format!(
                        "cannot look up {reference}, for {delegates}: {problem}; check that the engine can reach {registry}"
                    ),
                );
            }
            Ok(distribution) => match missing_platform(engine, &distribution, rollouts).await {
                Some((needed, offered)) => {
                    let image = reference.to_string();
                    // Use the same message as a run that pulls the image.
                    let reason = Reason::WrongPlatform {
                        image,
                        offered,
                        needed: needed.clone(),
                    };
                    checks.fail("platform", format!("{reason}, for {delegates}: publish one for {needed}"));
                }
                None => checks.ok(subject, format!("it has {reference}, for {delegates}")),
            },
        }
    }
}

/// The platform of a delegate that the image in the registry lacks, and the platforms that the image has.
async fn missing_platform(
    engine: &DockerEngine,
    distribution: &Value,
    rollouts: &[&Rollout],
) -> Option<(String, String)> {
    let offered = offered_platforms(distribution)?;
    let running: BTreeSet<&str> = rollouts
        .iter()
        .filter_map(|rollout| Some(rollout.replaceable()?.image_id.as_str()))
        .collect();
    for image in running {
        let needed = engine
            .inspect_image(image)
            .await
            .ok()
            .as_ref()
            .and_then(image_platform);
        if let Some(needed) = needed.filter(|needed| !offered.contains(needed)) {
            return Some((needed, offered.join(", ")));
        }
    }
    None
}
