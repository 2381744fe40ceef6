//! The part a container plays in a rollout, as its name says.

use crate::text::duration::digits;

/// The part a container plays in the rollout of the delegate `NAME`, read from its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `NAME`: the delegate in service.
    Serving,
    /// `NAME.candidate`: new, not yet proven.
    Candidate,
    /// `NAME.draining-<unix>`: old, asked to stop at that second.
    Draining {
        /// Seconds since the epoch.
        since: i64,
    },
    /// `NAME.withdrawn-<unix>`: a candidate that is no longer wanted, through no fault of its own, and was asked to
    /// stop.
    Withdrawn {
        /// Seconds since the epoch.
        since: i64,
    },
    /// `NAME.standby`: a copy of an `--rm` delegate, never started, made before its replacement begins.
    Standby,
    /// `NAME.failed-<attempt>`: a rejected candidate, kept as evidence and as the quarantine of its image. For an
    /// `--rm` candidate, which vanishes when it stops, its attempt marker.
    Failed {
        /// How many times this image was rejected in a row, from 1.
        attempt: u32,
    },
    /// `NAME.inconclusive-<attempt>`: a candidate that failed while delegates with another image were unhealthy, too: no
    /// verdict on its image, which is tried again after a pause. For an `--rm` candidate, its attempt marker.
    Inconclusive {
        /// How many times this image was tried in vain in a row, from 1.
        attempt: u32,
    },
    /// `NAME.attempt`: the attempt marker of an `--rm` candidate, a container of its image that is never started. It
    /// says that the image was tried, whatever becomes of the candidate.
    Attempt,
    /// `NAME.helper`, and `NAME.helper-ready` once it has said that it is: an upgrader of the new image that makes the
    /// exchange where two upgraders cannot run at once.
    Helper {
        /// Whether it has observed the host, and could write to the engine.
        is_ready: bool,
    },
}

impl Role {
    /// Whether it is a new one that does not take over.
    pub fn is_given_up(self) -> bool {
        matches!(
            self,
            Self::Failed { .. } | Self::Inconclusive { .. } | Self::Withdrawn { .. }
        )
    }

    /// Splits a container name (no leading slash) into the delegate's name and the role.
    pub fn parse(name: &str) -> (&str, Self) {
        if let Some((base, suffix)) = name.rsplit_once('.')
            && !base.is_empty()
        {
            if suffix == "candidate" {
                return (base, Self::Candidate);
            }
            if suffix == "standby" {
                return (base, Self::Standby);
            }
            if suffix == "attempt" {
                return (base, Self::Attempt);
            }
            if matches!(suffix, "helper" | "helper-ready") {
                let is_ready = suffix == "helper-ready";
                return (base, Self::Helper { is_ready });
            }
            if let Some(since) = suffix.strip_prefix("draining-").and_then(second) {
                return (base, Self::Draining { since });
            }
            if let Some(since) = suffix.strip_prefix("withdrawn-").and_then(second) {
                return (base, Self::Withdrawn { since });
            }
            if let Some(attempt) = suffix.strip_prefix("failed-").and_then(digits) {
                return (base, Self::Failed { attempt });
            }
            if let Some(attempt) = suffix.strip_prefix("inconclusive-").and_then(digits) {
                return (base, Self::Inconclusive { attempt });
            }
        }
        (name, Self::Serving)
    }

    /// The container name this role has for the delegate `base`.
    pub fn name(self, base: &str) -> String {
        match self {
            Self::Serving => base.to_owned(),
            Self::Candidate => format!("{base}.candidate"),
            Self::Draining { since } => format!("{base}.draining-{since}"),
            Self::Withdrawn { since } => format!("{base}.withdrawn-{since}"),
            Self::Standby => format!("{base}.standby"),
            Self::Failed { attempt } => format!("{base}.failed-{attempt}"),
            Self::Inconclusive { attempt } => format!("{base}.inconclusive-{attempt}"),
            Self::Attempt => format!("{base}.attempt"),
            Self::Helper { is_ready: false } => format!("{base}.helper"),
            Self::Helper { is_ready: true } => format!("{base}.helper-ready"),
        }
    }
}

/// A second of a name. It is anybody's to give, and one after the year 9999 would leave no room for a time after it.
fn second(text: &str) -> Option<i64> {
    digits(text).filter(|second| *second <= 253_402_300_799)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_read_back_from_the_name_it_writes() {
        for role in [
            Role::Serving,
            Role::Candidate,
            Role::Draining { since: 1_700_000_000 },
            Role::Withdrawn { since: 1_700_000_000 },
            Role::Standby,
            Role::Failed { attempt: 3 },
            Role::Inconclusive { attempt: 2 },
            Role::Attempt,
            Role::Helper { is_ready: false },
            Role::Helper { is_ready: true },
        ] {
            let name = role.name("docker-delegate");
            assert_eq!(Role::parse(&name), ("docker-delegate", role), "{name}");
        }
    }

    #[test]
    fn names_that_only_look_like_ours_are_plain_delegates() {
        for name in [
            "a.draining-",
            "a.draining-+5",
            "a.failed-x",
            ".candidate",
            "a.b",
            "candidate",
            "a.draining-1x",
            "a.withdrawn-",
            "a.helper-",
        ] {
            assert_eq!(Role::parse(name), (name, Role::Serving), "{name}");
        }
    }
}
