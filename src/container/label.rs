//! Labels we read from a delegate (set by its owner) or write on a container we create.

/// `false` on a delegate: do not upgrade it.
pub const ENABLE: &str = "io.delegate-upgrader.enable";
/// The same for Watchtower, which is honoured where [`ENABLE`] says nothing.
pub const WATCHTOWER_ENABLE: &str = "com.centurylinklabs.watchtower.enable";
/// On a delegate: `start-first` or `stop-first`, over `UPGRADE_STRATEGY`.
pub const STRATEGY: &str = "io.delegate-upgrader.strategy";
/// On a delegate: its own `CONTAINER_STOP_TIMEOUT`.
pub const STOP_TIMEOUT: &str = "io.delegate-upgrader.stop-timeout";
/// On a delegate: the version it stays at.
pub const PIN: &str = "io.delegate-upgrader.pin";
/// On a delegate: no replacement of it begins before then.
pub const SNOOZE_UNTIL: &str = "io.delegate-upgrader.snooze-until";
/// On a delegate: its own `UPGRADE_WINDOW`.
pub const WINDOW: &str = "io.delegate-upgrader.window";
/// On a container we created: the full id of the one it replaces.
pub const REPLACES: &str = "io.delegate-upgrader.replaces";
/// On a container we created: the name it was made to take. An owner's delegate may be called `x.candidate`;
/// this label distinguishes its successor in service from a candidate for `x`.
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
/// On an empty volume, which is a record of ours: `pause` or `first-seen`.
pub const RECORD: &str = "io.delegate-upgrader.record";
/// On such a volume: when it was made.
pub const SINCE: &str = "io.delegate-upgrader.since";
/// On the record of a pause: when it ends, where that is known.
pub const UNTIL: &str = "io.delegate-upgrader.until";
/// On a container we created by an image's id, since its reference is gone or another image now: the reference. On the
/// record of an image that was seen: what tells it apart from all others.
pub const IMAGE: &str = "io.delegate-upgrader.image";
/// On a container that `rollback` made: the image reference it went back from. That image is not taken up as
/// long as it is the published one.
pub const ROLLED_BACK_FROM: &str = "io.delegate-upgrader.rolled-back-from";
/// On a container that `rollback` made: the id of the image it went back from.
pub const ROLLED_BACK_FROM_ID: &str = "io.delegate-upgrader.rolled-back-from-id";
/// `true` on a copy of a delegate: it has the history of its original, and is no release of its own.
pub const COPY: &str = "io.delegate-upgrader.copy";

/// On a candidate: how the container that it is to replace did when it was created, where that did not work:
/// `unhealthy` or `crashing`.
pub const PREDECESSOR_CONDITION: &str = "io.delegate-upgrader.predecessor-condition";

/// The labels that only we write. Those of a release replace those of the one before.
pub const OURS: [&str; 13] = [
    REPLACES,
    COPY,
    PREDECESSOR_CONDITION,
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

/// The labels with a delegate's own history: a copy of it has them too.
pub const HISTORY: [&str; 5] = [
    RELEASE,
    PREVIOUS_IMAGE,
    PREVIOUS_IMAGE_ID,
    ROLLED_BACK_FROM,
    ROLLED_BACK_FROM_ID,
];

/// Whether a container with these labels bears all marks of one that this program created for `base`: an owner may write one
/// label, or copy it, but hardly all of them, and hardly the whole id of a container.
pub(crate) fn are_ours<'a>(label: impl Fn(&str) -> Option<&'a str>, base: &str) -> bool {
    let is_id = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    label(NAME) == Some(base)
        && label(REPLACES).is_some_and(is_id)
        && [RESTART_POLICY, RELEASE].iter().any(|name| label(name).is_some())
}
