//! The labels with which an owner configures one delegate.

use chrono::TimeDelta;
use tracing::warn;

use crate::config::UpdateOrder;
use crate::container::{Inspected, SWARM_SERVICE, label};
use crate::image::{PIN_ACCEPTED, Version};
use crate::rollout::{InvalidLabel, OwnerSettings};
use crate::schedule::zone::Zone;
use crate::schedule::{until, window};
use crate::text::{duration, yes_or_no};

/// The label by which the owner excludes what has these labels from upgrades, if so.
fn opted_out<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Option<&'static str> {
    let named = |name| Some((name, label(name)?));
    let (name, value) = label::OPT_OUT.into_iter().find_map(named)?;
    (yes_or_no(value) == Some(false)).then_some(name)
}

/// The owner's choice of the update order.
fn update_order(text: &str) -> Option<UpdateOrder> {
    text.trim().parse().ok()
}

/// The owner's settings for upgrades, read from these labels, and whether its account is another than this upgrader's.
pub(crate) fn owner<'a>(
    labels: impl Fn(&str) -> Option<&'a str>,
    account: Option<&str>,
    ours: Option<&str>,
    zone: &Zone,
) -> OwnerSettings {
    let is_other = |account: &&str| !account.is_empty() && ours.is_some_and(|ours| ours != *account);
    let mut invalid = None;
    let mut note = |label, accepted| {
        let value = labels(label).unwrap_or_default().to_owned();
        invalid.get_or_insert(InvalidLabel {
            label,
            value,
            accepted,
        });
    };
    let text = |label| labels(label).filter(|text: &&str| !text.trim().is_empty());
    let pin = text(label::PIN).map(Version::pinned);
    let snooze = text(label::SNOOZE_UNTIL).map(|text| until::parse(text, zone));
    let window = text(label::WINDOW).map(|text| window::UpgradeWindow::parse(text, zone.clone()));
    if let Some(None) = pin {
        note(label::PIN, PIN_ACCEPTED);
    }
    if let Some(None) = snooze {
        note(label::SNOOZE_UNTIL, until::ACCEPTED);
    }
    if let Some(Err(_)) = window {
        note(label::WINDOW, window::ACCEPTED);
    }
    OwnerSettings {
        opted_out: opted_out(&labels),
        other_account: account.filter(is_other).map(str::to_owned),
        compose_grace: TimeDelta::zero(),
        task_of: labels(SWARM_SERVICE).map(str::to_owned),
        update_order: labels(label::UPDATE_ORDER).and_then(update_order),
        healthy_deadline: labels(label::HEALTHY_DEADLINE).and_then(duration::foreign),
        pin: pin.flatten(),
        snooze_until: snooze.flatten(),
        window: window.and_then(Result::ok),
        invalid,
    }
}

/// Warns of labels whose value is invalid. Labels never change, so this is done when a delegate is first seen.
pub(super) fn log_invalid(container: &Inspected) {
    const DURATION: &str = "seconds, or a duration such as 45m";
    let warn_unless = |is_valid: fn(&str) -> bool, label, accepted| {
        if let Some(value) = container.label(label).filter(|value| !is_valid(value)) {
            let container = container.name();
            warn!(container, label, value, accepted, "invalid label ignored");
        }
    };
    let is_order = |text: &str| update_order(text).is_some();
    let is_duration = |text: &str| duration::foreign(text).is_some();
    warn_unless(is_order, label::UPDATE_ORDER, "auto, start-first or stop-first");
    warn_unless(is_duration, label::STOP_TIMEOUT, DURATION);
    warn_unless(is_duration, label::HEALTHY_DEADLINE, DURATION);
}
