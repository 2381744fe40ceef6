//! The order of a replacement that follows from the operator's settings.

use super::reason::Reason;
use super::{Facts, Policy, Rollout};
use crate::config::UpdateOrder;
use crate::document::SingleInstance;

/// The order in which the old container stops and the new one starts.
#[derive(Clone, Debug, PartialEq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum ChosenOrder {
    /// The new one proves itself beside the old one.
    StartFirst,
    /// The old one stops before the new one starts.
    StopFirst,
    /// Neither order is possible.
    #[strum(to_string = "{0}")]
    Blocked(Reason),
}

impl Rollout {
    /// How this delegate is replaced: by its owner's label, then the setting, then what its configuration or memory permits.
    pub fn update_order(&self, policy: &Policy, facts: &Facts) -> ChosenOrder {
        let too_little_memory = facts
            .free_memory
            .as_ref()
            .and_then(|memory| memory.as_ref().err());
        let single_instance = self
            .single_instance
            .as_ref()
            .or(too_little_memory)
            .or(facts.no_free_port.as_ref());
        match (
            self.owner.update_order.unwrap_or(policy.update_order),
            single_instance,
        ) {
            (UpdateOrder::StartFirst | UpdateOrder::Auto, None) => ChosenOrder::StartFirst,
            (UpdateOrder::StartFirst, Some(conflict)) => {
                ChosenOrder::Blocked(Reason::CannotStartFirst(conflict.clone()))
            }
            // The helper would need that memory as well.
            (UpdateOrder::Auto, Some(conflict @ SingleInstance::TooLittleMemory { .. }))
                if self.is_upgrader() =>
            {
                ChosenOrder::Blocked(Reason::CannotStartFirst(conflict.clone()))
            }
            (UpdateOrder::Auto, Some(_)) | (UpdateOrder::StopFirst, _) => ChosenOrder::StopFirst,
        }
    }
}
