//! Which instance of an upgrader that replaces itself acts.

use super::read::{Families, Part};
use crate::container::{ContainerId, Role};

/// Whether this instance of the upgrader acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This instance acts.
    Acts,
    /// No container with the upgrader's name is up: this instance completes the exchange, and does nothing else.
    Exchanges {
        /// The upgrader's name.
        name: String,
    },
    /// Another instance acts; this one only watches.
    StandsBy {
        /// The name of the acting instance.
        behind: String,
        /// The new name by which this upgrader, a helper, reports that it is ready; `None` if it has nothing to report.
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

/// Whose turn it is; `None` if the own container could not be inspected.
///
/// The container with the name acts as long as it lives. If none is up, the candidate takes the name itself, while the helper or
/// else an old container does the rest of the exchange. A container that was given up never acts. One that is paused or between
/// two lives counts as alive: it may continue at any moment.
pub(super) fn turn(families: &Families, own: &ContainerId) -> Option<Turn> {
    let is_own = |part: &Part| part.container.id() == *own;
    let (base, parts) = families.iter().find(|(_, parts)| parts.iter().any(is_own))?;
    let own_part = parts.iter().find(|part| is_own(part))?;
    let is_alive = |part: &&Part| part.container.state().is_up();
    let alive = |role: fn(Role) -> bool| parts.iter().filter(is_alive).find(|part| role(part.role));
    let stands_by = |part: Option<&Part>| Turn::StandsBy {
        // If no container with the name runs, this one was given up.
        behind: part.map_or_else(|| base.clone(), |part| part.container.name().to_owned()),
        says_ready: match own_part.role {
            Role::Helper { is_ready: false } => Some(Role::Helper { is_ready: true }.name(base)),
            _ => None,
        },
    };
    let serving = alive(|role| role == Role::Serving);
    let exchanges = alive(|role| role == Role::Helper { is_ready: true })
        .or_else(|| alive(|role| role == Role::Retired))
        .or_else(|| alive(|role| matches!(role, Role::Draining { .. })));
    Some(match own_part.role {
        Role::Serving => Turn::Acts,
        _ if serving.is_some() => stands_by(serving),
        Role::Candidate | Role::Next => Turn::Exchanges { name: base.clone() },
        _ if exchanges.is_some_and(is_own) => Turn::Exchanges { name: base.clone() },
        _ => stands_by(exchanges),
    })
}
