//! The role of a container in a rollout, which its name shows.

use crate::text::duration::digits;

/// The role of a container in the rollout of the delegate `NAME`, parsed from the container's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `NAME`: the delegate in service.
    Serving,
    /// `NAME.candidate`: a new container that has not proven itself yet.
    Candidate,
    /// `NAME.next`: a candidate that takes over while the container in service crashes too fast to be renamed. That
    /// container keeps its name and was asked to stop, or is about to be.
    Next,
    /// `NAME.retired`: an old container that gave up the name and was never asked to stop.
    Retired,
    /// `NAME.draining-<unix>`: an old container that was asked to stop at that time, or is about to be.
    Draining {
        /// Seconds since the epoch, rounded up.
        since: i64,
    },
    /// `NAME.withdrawn-<unix>`: a candidate that is no longer wanted and was asked to stop at that time.
    Withdrawn {
        /// Seconds since the epoch, rounded up.
        since: i64,
    },
    /// `NAME.trial-<unix>`: shows that the engine can start such a candidate, before the container in service is asked to
    /// stop. It does nothing and runs for a moment at most.
    Trial {
        /// Seconds since the epoch, rounded up.
        since: i64,
    },
    /// `NAME.failed-<attempt>`: a rejected candidate, kept as evidence. While it exists, its image is in quarantine.
    Failed {
        /// The number of rejections of this image in a row, counted from 1.
        attempt: u32,
    },
    /// `NAME.former`: never started; has the settings before a change of these, which `rollback` reads.
    Former,
    /// `NAME.helper`, or `NAME.helper-ready` after it reported that it is ready: an upgrader with the new image that
    /// exchanges two upgraders which cannot run at the same time.
    Helper {
        /// Whether it has observed the host and was able to write to the engine.
        is_ready: bool,
    },
}

impl Role {
    /// Splits a container name (without a leading slash) into the delegate's name and the role.
    pub fn parse(name: &str) -> (&str, Self) {
        if let Some((base, suffix)) = name.rsplit_once('.')
            && !base.is_empty()
        {
            let (part, number) = match suffix.split_once('-') {
                Some((part, number)) => (part, Some(number)),
                None => (suffix, None),
            };
            // If a leftover container has the name, the next one gets a number: `NAME.candidate-2`.
            let is_numbered = number.is_none_or(|number| digits::<u32>(number).is_some());
            let since = number.and_then(second);
            let role = match part {
                "next" if number.is_none() => Some(Self::Next),
                "helper" if number.is_none() => Some(Self::Helper { is_ready: false }),
                "helper" if number == Some("ready") => Some(Self::Helper { is_ready: true }),
                "candidate" if is_numbered => Some(Self::Candidate),
                "retired" if is_numbered => Some(Self::Retired),
                "former" if is_numbered => Some(Self::Former),
                "draining" => since.map(|since| Self::Draining { since }),
                "withdrawn" => since.map(|since| Self::Withdrawn { since }),
                "trial" => since.map(|since| Self::Trial { since }),
                "failed" => number.and_then(digits).map(|attempt| Self::Failed { attempt }),
                _ => None,
            };
            if let Some(role) = role {
                return (base, role);
            }
        }
        (name, Self::Serving)
    }

    /// Returns the name that a container with this role has for the delegate `base`.
    pub fn name(self, base: &str) -> String {
        match self {
            Self::Serving => base.to_owned(),
            Self::Candidate => format!("{base}.candidate"),
            Self::Next => format!("{base}.next"),
            Self::Retired => format!("{base}.retired"),
            Self::Draining { since } => format!("{base}.draining-{since}"),
            Self::Withdrawn { since } => format!("{base}.withdrawn-{since}"),
            Self::Trial { since } => format!("{base}.trial-{since}"),
            Self::Failed { attempt } => format!("{base}.failed-{attempt}"),
            Self::Former => format!("{base}.former"),
            Self::Helper { is_ready: false } => format!("{base}.helper"),
            Self::Helper { is_ready: true } => format!("{base}.helper-ready"),
        }
    }

    /// Whether it is a container that has not proven itself yet.
    pub fn is_candidate(self) -> bool {
        matches!(self, Self::Candidate | Self::Next)
    }

    /// Whether it is an old container that gave up the name.
    pub fn is_old(self) -> bool {
        matches!(self, Self::Retired | Self::Draining { .. })
    }
}

/// Parses the time in a name. Anyone can choose a name, and a time after the year 9999 would leave no room for later times.
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
            Role::Next,
            Role::Draining { since: 1_700_000_000 },
            Role::Withdrawn { since: 1_700_000_000 },
            Role::Trial { since: 1_700_000_000 },
            Role::Retired,
            Role::Failed { attempt: 3 },
            Role::Former,
            Role::Helper { is_ready: false },
            Role::Helper { is_ready: true },
        ] {
            let name = role.name("docker-delegate");
            assert_eq!(Role::parse(&name), ("docker-delegate", role), "{name}");
        }
        // A number beside a leftover container of that name changes nothing.
        assert_eq!(Role::parse("d.candidate-2"), ("d", Role::Candidate));
        assert_eq!(Role::parse("d.retired-3"), ("d", Role::Retired));
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
            "a.candidate-",
            "a.retired-x",
        ] {
            assert_eq!(Role::parse(name), (name, Role::Serving), "{name}");
        }
    }
}
