//! Which instance of an upgrader that replaces itself acts.

use super::read::{Families, Part};
use crate::container::{ContainerId, Role, RunState};

/// Whether this instance of the upgrader acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It does.
    Acts,
    /// Another one does; this one only watches.
    StandsBy {
        /// The name of the one that acts.
        behind: String,
        /// The name by which this one, a helper, says that it is ready; `None` where there is nothing to say.
        says_ready: Option<String>,
    },
}

impl Turn {
    pub(super) fn behind(name: &str) -> Self {
        Self::StandsBy {
            behind: name.to_owned(),
            says_ready: None,
        }
    }
}

/// Whose turn it is; `None` where the own container could not be inspected.
///
/// The name decides: who has it acts as long as it lives. Where nobody has it, in the middle of an exchange, the one that
/// gave it up last acts. Where no old one lives, it is the helper, if there is one, until the new one has proven itself;
/// and else the new one. What was given up never does. A container that is paused or between two lives is alive: it may go on
/// at any moment.
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
            Role::Serving => Some((3, 0)),
            Role::Draining { since } => Some((2, since)),
            Role::Helper { .. } => Some((1, 0)),
            Role::Candidate => Some((0, 0)),
            _ => None,
        }
    };
    let ranked = parts.iter().filter_map(|part| Some((rank(part)?, part)));
    let first = ranked.max_by_key(|(rank, _)| *rank).map(|(_, part)| part);
    if first.is_some_and(is_own) {
        return Some(Turn::Acts);
    }
    let is_new_helper = |part: &&Part| part.role == Role::Helper { is_ready: false };
    let own_part = parts.iter().find(|part| is_own(part));
    Some(Turn::StandsBy {
        // This one was given up, where the one that has the name does not run.
        behind: first.map_or_else(|| base.clone(), |part| part.container.name().to_owned()),
        says_ready: own_part
            .filter(is_new_helper)
            .map(|_| Role::Helper { is_ready: true }.name(base)),
    })
}
