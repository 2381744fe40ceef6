//! The engine, what may be asked of it, and the delegates there.

use super::{Checks, Delegate, Engine};
use crate::app;
use crate::config::{Settings, Source};
use crate::container::ApiVersion;
use crate::container::{DELEGATE_NAME_VARIABLE, Role, label};
use crate::engine::{API_CALLS, Engine as _, EngineError, MUTABLE_TAGS, Need, Right};
use crate::host::capacity::{Disk, needed};
use crate::image::is_mutable_tag;
use crate::observe::is_no;
use crate::status::report::none_found;

/// What the first delegate host of Debian has; nothing older was tried.
const OLDEST: ApiVersion = ApiVersion::new(1, 41);
const MIB: u64 = 1024 * 1024;

/// `None` where the engine is out of reach.
pub(super) async fn run_checks(
    engine: &Engine,
    settings: &Settings,
    found: &mut Checks,
) -> Option<Vec<Delegate>> {
    let host = &settings.engine;
    let info = match engine.info().await {
        Ok(info) => info,
        Err(error) => {
            let what_to_do = match &error {
                EngineError::Unreachable(_) | EngineError::TimedOut(_) => {
                    "is Docker running, its socket mounted, and this user let in (DOCKER_HOST)?".to_owned()
                }
                _ => format!(
                    "does {host} (DOCKER_HOST) lead to an engine, and does its proxy allow GET /version?"
                ),
            };
            found.fail("engine", format!("{error}; {what_to_do}"));
            return None;
        }
    };
    let text = format!(
        "{}, API {}, {}/{}, at {host}",
        info.version, info.api, info.os, info.architecture
    );
    if info.api < OLDEST {
        found.warn(
            "engine",
            format!("{text}: nothing older than API {OLDEST} was tried; update Docker"),
        );
    } else {
        found.ok("engine", text);
    }
    let delegates = delegates(engine, settings).await;
    let purpose = Purpose {
        upgrades: !settings.disable_auto_upgrade,
        compares_tags: !matches!(settings.source, Source::None)
            && delegates.as_ref().is_ok_and(|all| has_moving(all)),
    };
    rights(engine, purpose, info.api, found).await;
    let delegates = match delegates {
        Ok(delegates) => delegates,
        Err(error) => {
            found.fail(
                "delegates",
                format!("the containers cannot be looked at: {error}; does a socket proxy allow what `rights` names?"),
            );
            return Some(Vec::new());
        }
    };
    if delegates.is_empty() {
        found.warn("delegates", none_found(&settings.workload_names));
    } else {
        let names: Vec<&str> = delegates.iter().map(|delegate| delegate.name.as_str()).collect();
        found.ok("delegates", names.join(", "));
    }
    if !settings.disable_auto_upgrade {
        disk(engine, settings, &delegates, found).await;
    }
    Some(delegates)
}

/// What the engine is asked for on this host.
#[derive(Clone, Copy)]
struct Purpose {
    upgrades: bool,
    compares_tags: bool,
}

fn has_moving(delegates: &[Delegate]) -> bool {
    let mut images = delegates
        .iter()
        .filter(|delegate| !delegate.opted_out)
        .filter_map(|delegate| delegate.image.parse().ok());
    images.any(|image| is_mutable_tag(&image))
}

async fn rights(engine: &Engine, purpose: Purpose, api: ApiVersion, found: &mut Checks) {
    let (mut allowed, mut refused) = (0, 0);
    for right in API_CALLS.iter().filter(|right| is_needed(right, purpose, api)) {
        match engine.refusal(right).await {
            Ok(None) => allowed += 1,
            Ok(Some(why)) => {
                refused += 1;
                let call = format!("{} {} is refused ({why})", right.method, right.path);
                match goes_on_without(right, purpose) {
                    None => found.fail("rights", format!("{call}: allow it in the socket proxy")),
                    Some(what) => found.warn("rights", format!("{call}; it is for {what}")),
                }
            }
            Err(error) => {
                found.fail("rights", format!("{} {}: {error}", right.method, right.path));
                return;
            }
        }
    }
    if refused == 0 {
        found.ok("rights", format!("all {allowed} calls are let through"));
    }
}

fn is_needed(right: &Right, purpose: Purpose, api: ApiVersion) -> bool {
    let is_versioned = right.path.starts_with("/v1.");
    let compares_tags = right.compares_tags && purpose.compares_tags;
    (right.need == Need::Watch || purpose.upgrades || compares_tags)
        && (!is_versioned || api >= ApiVersion::new(1, 52))
}

/// What is not done without it, where all else is.
fn goes_on_without(right: &Right, purpose: Purpose) -> Option<&'static str> {
    match right.need {
        Need::Some(what) => Some(what),
        Need::Upgrade if !purpose.upgrades => Some(MUTABLE_TAGS),
        Need::Watch | Need::Upgrade => None,
    }
}

async fn delegates(engine: &Engine, settings: &Settings) -> Result<Vec<Delegate>, EngineError> {
    let mut delegates = Vec::new();
    for summary in engine.containers().await? {
        let container = match engine.inspect(&summary.id).await {
            Err(EngineError::NotFound(_)) => continue,
            answer => answer?,
        };
        let name = container.env(DELEGATE_NAME_VARIABLE).unwrap_or_default();
        if !settings.workload_names.iter().any(|wanted| wanted == name) {
            continue;
        }
        // Candidates, old ones and rejected ones are on their way to be gone.
        if Role::parse(container.name()).1 != Role::Serving {
            continue;
        }
        let image_document = if settings.disable_auto_upgrade {
            None
        } else {
            engine.inspect_image(container.image_id().as_str()).await.ok()
        };
        delegates.push(Delegate {
            name: container.name().to_owned(),
            group: name.to_owned(),
            image: container.image_reference().to_owned(),
            image_document,
            id: summary.id,
            opted_out: container.label(label::ENABLE).is_some_and(is_no),
        });
    }
    // The engine lists the youngest first.
    delegates.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(delegates)
}

async fn disk(engine: &Engine, settings: &Settings, delegates: &[Delegate], found: &mut Checks) {
    let size = |delegate: &Delegate| delegate.image_document.as_ref()?.get("Size")?.as_u64();
    let largest = delegates
        .iter()
        .filter_map(|delegate| Some((size(delegate)?, delegate)))
        .max_by_key(|(size, _)| *size);
    let Some((size, delegate)) = largest else { return };
    let disk = Disk {
        free: app::free_disk(settings),
        own_id: crate::host::own_container(),
    };
    let needed = needed(size);
    match disk.available(engine, &delegate.id).await {
        None => found.ok("disk", "how much room the engine has cannot be told from here"),
        Some(available) if available < needed => found.fail(
            "disk",
            format!(
                "{} MiB are left where the engine keeps images, and the next one may need {}: make room (`docker system df`)",
                available / MIB,
                needed / MIB
            ),
        ),
        Some(available) => found.ok("disk", format!("{} MiB are left where the engine keeps images", available / MIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_checks_of_tags_that_move_go_on_without_the_two_calls_that_compare_them() {
        let calls = |compares_tags| {
            let purpose = Purpose {
                upgrades: false,
                compares_tags,
            };
            let needed = API_CALLS
                .iter()
                .filter(move |right| is_needed(right, purpose, OLDEST));
            let calls: Vec<_> = needed
                .map(|right| (right.path, goes_on_without(right, purpose)))
                .collect();
            calls
        };
        let always = [
            ("/version", None),
            ("/containers/json", None),
            ("/containers/{id}/json", None),
        ];
        assert_eq!(calls(false), always);
        let further = [
            ("/images/{name}/json", Some(MUTABLE_TAGS)),
            ("/distribution/{name}/json", Some(MUTABLE_TAGS)),
        ];
        assert_eq!(calls(true), [always.as_slice(), &further].concat());
    }
}
