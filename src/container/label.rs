//! Labels we read from a delegate (set by its owner) or write on a container we create.

/// `false` on a delegate: do not upgrade it.
pub const ENABLE: &str = "io.delegate-upgrader.enable";
/// The same for Watchtower, which is honoured where [`ENABLE`] says nothing.
pub const WATCHTOWER_ENABLE: &str = "com.centurylinklabs.watchtower.enable";
/// On a delegate: `start-first` or `stop-first`, over `UPDATE_ORDER`.
pub const UPDATE_ORDER: &str = "io.delegate-upgrader.update-order";
/// On a delegate: its own `CONTAINER_STOP_TIMEOUT`.
pub const STOP_TIMEOUT: &str = "io.delegate-upgrader.stop-timeout";
/// On a delegate: its own `UPGRADE_HEALTHY_DEADLINE`.
pub const HEALTHY_DEADLINE: &str = "io.delegate-upgrader.healthy-deadline";
/// On a delegate: the version it stays at.
pub const PIN: &str = "io.delegate-upgrader.pin";
/// On a delegate: no replacement of it starts before then.
pub const SNOOZE_UNTIL: &str = "io.delegate-upgrader.snooze-until";
/// On a delegate: its own `UPGRADE_WINDOW`.
pub const WINDOW: &str = "io.delegate-upgrader.window";
/// On a container we created: the full id of the container it replaces.
pub const REPLACES: &str = "io.delegate-upgrader.replaces";
/// On a container we created: the name it was made to take. An owner's delegate may be called `x.candidate`;
/// this label distinguishes its successor in service from a candidate for `x`.
pub const NAME: &str = "io.delegate-upgrader.name";
/// On a container we created: the number of this attempt at a replacement, from 1.
pub const RELEASE: &str = "io.delegate-upgrader.release";
/// On a container we created: the release of the container it replaces.
pub const PREVIOUS_RELEASE: &str = "io.delegate-upgrader.previous-release";
/// On a container we created: the image reference of the container it replaces.
pub const PREVIOUS_IMAGE: &str = "io.delegate-upgrader.previous-image";
/// On a container we created: the image id of the container it replaces.
pub const PREVIOUS_IMAGE_ID: &str = "io.delegate-upgrader.previous-image-id";
/// On a container we created: the ids of the images that the containers before it ran, the latest first, without those that
/// the owner brought.
pub const FORMER_IMAGES: &str = "io.delegate-upgrader.former-images";
/// `true` on what was made in the place of a delegate with `--rm`: it has no `--rm` itself, so that it never vanishes, and
/// the upgrader removes it once it has ended, as Docker would have.
pub const AUTO_REMOVE: &str = "io.delegate-upgrader.auto-remove";
/// On a candidate: a fingerprint of those settings of the container that it replaces that its owner can change while it runs.
pub const FINGERPRINT: &str = "io.delegate-upgrader.fingerprint";
/// On a container we created, below API 1.44: the networks to connect it to before its start, with the endpoints' settings.
pub const NETWORKS: &str = "io.delegate-upgrader.networks";
/// On an empty volume, which is a record of ours: `pause`, `first-seen` or `rejected`.
pub const RECORD: &str = "io.delegate-upgrader.record";
/// On such a volume: when it was made.
pub const SINCE: &str = "io.delegate-upgrader.since";
/// On the record of a pause or a rejection: when the pause or the quarantine ends, if that is known.
pub const UNTIL: &str = "io.delegate-upgrader.until";
/// On a container we created by an image's id, since its reference is gone or another image now: the reference. On the
/// record of an image that was seen: what tells it apart from all others. On the record of a rejection: the reference.
pub const IMAGE: &str = "io.delegate-upgrader.image";
/// On the record of a rejection: the id of the image.
pub const IMAGE_ID: &str = "io.delegate-upgrader.image-id";
/// On the record of a rejection: how many there were of that image, from 1.
pub const ATTEMPT: &str = "io.delegate-upgrader.attempt";
/// On a container that `rollback` made: the image reference it went back from. That image is not taken up as
/// long as it is the published one.
pub const ROLLED_BACK_FROM: &str = "io.delegate-upgrader.rolled-back-from";
/// On a container that `rollback` made: the id of the image it went back from.
pub const ROLLED_BACK_FROM_ID: &str = "io.delegate-upgrader.rolled-back-from-id";
/// `true` on a copy of a delegate, whose original could no longer be started or was gone. The copy has
/// the history of its original, and does not count as a release.
pub const COPY: &str = "io.delegate-upgrader.copy";

/// The labels that only we write. The labels of a release replace those of the previous release.
pub const OURS: [&str; 14] = [
    REPLACES,
    COPY,
    NAME,
    RELEASE,
    PREVIOUS_RELEASE,
    PREVIOUS_IMAGE,
    PREVIOUS_IMAGE_ID,
    FORMER_IMAGES,
    AUTO_REMOVE,
    FINGERPRINT,
    NETWORKS,
    IMAGE,
    ROLLED_BACK_FROM,
    ROLLED_BACK_FROM_ID,
];

/// The labels with a delegate's own history: a copy of it has them too.
pub const HISTORY: [&str; 7] = [
    RELEASE,
    PREVIOUS_RELEASE,
    PREVIOUS_IMAGE,
    PREVIOUS_IMAGE_ID,
    FORMER_IMAGES,
    ROLLED_BACK_FROM,
    ROLLED_BACK_FROM_ID,
];

/// Whether a container with these labels bears all marks of our own containers for `base`: an owner may write one
/// label, or copy it, but hardly all of them, and hardly the whole id of a container.
pub(crate) fn are_ours<'a>(label: impl Fn(&str) -> Option<&'a str>, base: &str) -> bool {
    let is_id = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    label(NAME) == Some(base) && label(REPLACES).is_some_and(is_id) && label(RELEASE).is_some()
}
