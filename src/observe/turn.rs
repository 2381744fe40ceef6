//! Which instance of an upgrader that replaces itself acts.

use super::read::{Families, Part};
use crate::container::{ContainerId, Role, RunState};

/// Whether this instance of the upgrader acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It does.
    Acts,
    /// The one of this name does; this one only watches.
    StandsBy(String),
}

/// Whose turn it is; `None` where the own container could not be inspected.
///
/// The name decides: who has it acts as long as it lives. Where nobody has it, in the middle of an exchange, the one that
/// gave it up last acts, and the new one only where no old one lives. What was given up never does. A container that is
/// paused or between two lives is alive: it may go on at any moment.
pub(super) fn turn(families: &Families, own: &ContainerId) -> Option<Turn> {
    let is_own = |part: &Part| part.container.id() == *own;
    let (base, parts) = families.iter().find(|(_, parts)| parts.iter().any(is_own))?;
    let rank = |part: &Part| {
        let is_alive = matches!(
            part.container.state(),
            RunState::Running | RunState::Paused | RunState::Restarting
        );
        match part.role {
            _ if !is_alive => None,
            Role::Serving => Some((2, 0)),
            Role::Draining { since } => Some((1, since)),
            Role::Candidate => Some((0, 0)),
            _ => None,
        }
    };
    let ranked = parts.iter().filter_map(|part| Some((rank(part)?, part)));
    Some(match ranked.max_by_key(|(rank, _)| *rank) {
        Some((_, first)) if is_own(first) => Turn::Acts,
        Some((_, first)) => Turn::StandsBy(first.container.name().to_owned()),
        // This one was given up, and the one that has the name does not run.
        None => Turn::StandsBy(base.clone()),
    })
}
