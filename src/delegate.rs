//! What a delegate container is called: ids, names, and the names and labels that are our journal.

use std::fmt;

use crate::duration::digits;

/// The environment variable by which a container says which delegate it is a replica of.
pub const DELEGATE_NAME_VARIABLE: &str = "DELEGATE_NAME";

/// Labels we read from a delegate (set by its owner) or write on a container we create.
pub mod label {
    /// `false` on a delegate: leave it alone.
    pub const ENABLE: &str = "io.delegate-upgrader.enable";
    /// On a delegate: `start-first` or `stop-first`, over `UPGRADE_STRATEGY`.
    pub const STRATEGY: &str = "io.delegate-upgrader.strategy";
    /// On a delegate: its own `CONTAINER_STOP_TIMEOUT`.
    pub const STOP_TIMEOUT: &str = "io.delegate-upgrader.stop-timeout";
    /// On a container we created: the full id of the one it replaces.
    pub const REPLACES: &str = "io.delegate-upgrader.replaces";
    /// On a container we created: the name it was made to take. An owner's delegate may be called `x.candidate`; by
    /// this label its successor in service is told from a candidate for `x`.
    pub const NAME: &str = "io.delegate-upgrader.name";
    /// On a container we created: how many times this delegate was replaced, from 1.
    pub const RELEASE: &str = "io.delegate-upgrader.release";
    /// On a container we created: the image reference of the one it replaces.
    pub const PREVIOUS_IMAGE: &str = "io.delegate-upgrader.previous-image";
    /// On a container we created: the image id of the one it replaces.
    pub const PREVIOUS_IMAGE_ID: &str = "io.delegate-upgrader.previous-image-id";
    /// On a container we created: the restart policy of the one it replaces, as `docker run --restart` takes it.
    /// Whatever we stop gets the policy `no` first; this label is where the true one is read from to restore it.
    pub const RESTART_POLICY: &str = "io.delegate-upgrader.previous-restart-policy";
    /// `true` on a copy that was made without `--rm` of a delegate that has it: a standby must not vanish. What is made
    /// from it gets `--rm` again.
    pub const AUTO_REMOVE: &str = "io.delegate-upgrader.auto-remove";
    /// On a standby: the networks it is connected to after it was made, with the endpoints' settings. Its original may
    /// vanish before that is done.
    pub const NETWORKS: &str = "io.delegate-upgrader.networks";
    /// On a container we created by an image's id, since its reference is gone or another image now: the reference.
    pub const IMAGE: &str = "io.delegate-upgrader.image";
    /// On a container that `rollback` made: the image reference it went back from. That image is left alone as long as
    /// it is the published one.
    pub const ROLLED_BACK_FROM: &str = "io.delegate-upgrader.rolled-back-from";
    /// On a container that `rollback` made: the id of the image it went back from.
    pub const ROLLED_BACK_FROM_ID: &str = "io.delegate-upgrader.rolled-back-from-id";

    /// The labels that only we write; a release's are replaced by the next one's, never piled up.
    pub const OURS: [&str; 11] = [
        REPLACES,
        NAME,
        RELEASE,
        PREVIOUS_IMAGE,
        PREVIOUS_IMAGE_ID,
        RESTART_POLICY,
        AUTO_REMOVE,
        NETWORKS,
        IMAGE,
        ROLLED_BACK_FROM,
        ROLLED_BACK_FROM_ID,
    ];

    /// The labels that tell a delegate's own past: a copy of it has them too.
    pub const HISTORY: [&str; 5] = [
        RELEASE,
        PREVIOUS_IMAGE,
        PREVIOUS_IMAGE_ID,
        ROLLED_BACK_FROM,
        ROLLED_BACK_FROM_ID,
    ];
}

/// A container's full id, 64 hex digits on every engine we know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(String);

impl ContainerId {
    /// Takes the id as the engine gave it.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve characters, as Docker shows it and as it names the host inside.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// An image's id, `sha256:` and 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(String);

impl ImageId {
    /// Takes the id as the engine gave it.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = self.0.strip_prefix("sha256:").unwrap_or(&self.0);
        f.write_str(hex.get(..12).unwrap_or(hex))
    }
}

/// The part a container plays in the rollout of the delegate `NAME`, as its own name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `NAME`: the delegate in service.
    Serving,
    /// `NAME.candidate`: new, not yet proven.
    Candidate,
    /// `NAME.draining-<unix>`: old, told to stop at that second.
    Draining {
        /// Seconds since the epoch.
        since: i64,
    },
    /// `NAME.withdrawn-<unix>`: a candidate that nobody wants any more, through no fault of its own; told to stop.
    Withdrawn {
        /// Seconds since the epoch.
        since: i64,
    },
    /// `NAME.standby`: a copy of an `--rm` delegate, never started, made before its replacement begins.
    Standby,
    /// `NAME.failed-<attempt>`: a rejected candidate, evidence and quarantine of its image. For an `--rm` candidate,
    /// which vanishes when it stops, a container of its image that was never started.
    Failed {
        /// How many times this image was rejected in a row, from 1.
        attempt: u32,
    },
}

impl Role {
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
            if let Some(since) = suffix.strip_prefix("draining-").and_then(digits) {
                return (base, Self::Draining { since });
            }
            if let Some(since) = suffix.strip_prefix("withdrawn-").and_then(digits) {
                return (base, Self::Withdrawn { since });
            }
            if let Some(attempt) = suffix.strip_prefix("failed-").and_then(digits) {
                return (base, Self::Failed { attempt });
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
        }
    }
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
        ] {
            assert_eq!(Role::parse(name), (name, Role::Serving), "{name}");
        }
    }
}
