//! The owner's settings for a delegate's upgrades, on its labels.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::config::UpdateOrder;
use crate::image::Version;
use crate::rollout::reason::Reason;
use crate::schedule::window::UpgradeWindow;

/// The settings on the labels of one delegate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerSettings {
    /// The label with which its owner opted out, if any.
    pub opted_out: Option<&'static str>,
    /// The Harness account that it belongs to, if that is not this upgrader's.
    pub other_account: Option<String>,
    /// How long Compose may take to stop a container that it created: it removes one of a service's two containers, and nothing
    /// shows which one it has asked to stop.
    pub compose_grace: TimeDelta,
    /// The Swarm service whose task it is, if any.
    pub task_of: Option<String>,
    /// The owner's choice for this delegate, which overrides `UPDATE_ORDER`.
    pub update_order: Option<UpdateOrder>,
    /// How long its new container has to become healthy; overrides `UPGRADE_HEALTHY_DEADLINE`.
    pub healthy_deadline: Option<Duration>,
    /// The version it stays at.
    pub pin: Option<Version>,
    /// No replacement starts before then.
    pub snooze_until: Option<DateTime<Utc>>,
    /// Its own window, instead of `UPGRADE_WINDOW`.
    pub window: Option<UpgradeWindow>,
    /// The first label that cannot be read. The owner's wish is unknown then, so no replacement starts.
    pub invalid: Option<InvalidLabel>,
}

impl OwnerSettings {
    /// Why this program leaves it alone: it belongs to a service or to another account, or its owner opted out.
    pub fn left_alone(&self) -> Option<Reason> {
        if let Some(service) = self.task_of.clone() {
            return Some(Reason::TaskOfService { service });
        }
        if let Some(account) = self.other_account.clone() {
            return Some(Reason::OtherAccount { account });
        }
        self.opted_out.map(|label| Reason::OptedOut { label })
    }
}

/// A label of a delegate that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the label {label}={value} is not {accepted}")]
pub struct InvalidLabel {
    /// Its name.
    pub label: &'static str,
    /// Its value.
    pub value: String,
    /// The accepted values.
    pub accepted: &'static str,
}
