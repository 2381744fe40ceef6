//! The labels that we read from a delegate (set by its owner) or write on containers that we create.

/// `false` on a delegate: do not upgrade it.
pub const ENABLE: &str = "io.delegate-upgrader.enable";
/// Watchtower's equivalent, which applies if [`ENABLE`] is not set.
pub const WATCHTOWER_ENABLE: &str = "com.centurylinklabs.watchtower.enable";
/// Both.
pub const OPT_OUT: [&str; 2] = [ENABLE, WATCHTOWER_ENABLE];
/// On a delegate: `start-first` or `stop-first`, which overrides `UPDATE_ORDER`.
pub const UPDATE_ORDER: &str = "io.delegate-upgrader.update-order";
/// On a delegate: overrides `CONTAINER_STOP_TIMEOUT`.
pub const STOP_TIMEOUT: &str = "io.delegate-upgrader.stop-timeout";
/// On a delegate: overrides `UPGRADE_HEALTHY_DEADLINE`.
pub const HEALTHY_DEADLINE: &str = "io.delegate-upgrader.healthy-deadline";
/// On a delegate: the version to keep it at.
pub const PIN: &str = "io.delegate-upgrader.pin";
/// On a delegate: the time before which no replacement starts.
pub const SNOOZE_UNTIL: &str = "io.delegate-upgrader.snooze-until";
/// On a delegate: overrides `UPGRADE_WINDOW`.
pub const WINDOW: &str = "io.delegate-upgrader.window";
/// On a container we created: the full id of the container it replaces.
pub const REPLACES: &str = "io.delegate-upgrader.replaces";
/// On a container we created: the name that it should take. An owner's delegate may have the name `x.candidate`; this label
/// distinguishes its successor in service from a candidate for `x`.
pub const NAME: &str = "io.delegate-upgrader.name";
/// On a container we created: the number of this replacement attempt, counted from 1.
pub const RELEASE: &str = "io.delegate-upgrader.release";
/// On a container we created: the release of the container it replaces.
pub const PREVIOUS_RELEASE: &str = "io.delegate-upgrader.previous-release";
/// On a container we created: the image reference of the container it replaces.
pub const PREVIOUS_IMAGE: &str = "io.delegate-upgrader.previous-image";
/// On a container we created: the image id of the container it replaces.
pub const PREVIOUS_IMAGE_ID: &str = "io.delegate-upgrader.previous-image-id";
/// On a container we created: the image ids of the containers before it, latest first, except those that the owner chose.
pub const FORMER_IMAGES: &str = "io.delegate-upgrader.former-images";
/// `true` on a container that replaces a delegate with `--rm`. It has no `--rm` itself, so it never vanishes; the upgrader
/// removes it after it has ended, as Docker would.
pub const AUTO_REMOVE: &str = "io.delegate-upgrader.auto-remove";
/// On a candidate: a fingerprint of the replaced container's settings that its owner can change while it runs.
pub const FINGERPRINT: &str = "io.delegate-upgrader.fingerprint";
/// On a container we created, below API 1.44: the networks to connect before its start, with the endpoints' settings.
pub const NETWORKS: &str = "io.delegate-upgrader.networks";
/// On an empty volume that stores a record of ours: `pause`, `first-seen` or `rejected`.
pub const RECORD: &str = "io.delegate-upgrader.record";
/// On a record: when it was created.
pub const SINCE: &str = "io.delegate-upgrader.since";
/// On the record of a pause or a rejection: when the pause or the quarantine ends, if that is known.
pub const UNTIL: &str = "io.delegate-upgrader.until";
/// On a container that we created by an image's id, since its reference is gone or means another image now: the reference.
/// On the record of a seen image: a text that identifies it. On the record of a rejection: the reference.
pub const IMAGE: &str = "io.delegate-upgrader.image";
/// On the record of a rejection: the id of the image.
pub const IMAGE_ID: &str = "io.delegate-upgrader.image-id";
/// On the record of a rejection: the number of rejections of that image, counted from 1.
pub const ATTEMPT: &str = "io.delegate-upgrader.attempt";
/// On a container that `rollback` created: the reference of the image that it left. That image is not used again as long as
/// it is the published one.
pub const ROLLED_BACK_FROM: &str = "io.delegate-upgrader.rolled-back-from";
/// On a container that `rollback` created: the id of the image that it left.
pub const ROLLED_BACK_FROM_ID: &str = "io.delegate-upgrader.rolled-back-from-id";
/// On a container that `reconfigure` created: the names of the settings that it changed.
pub const RECONFIGURED: &str = "io.delegate-upgrader.reconfigured";
/// On a container, service or record of ours that an operator asked for: who that was, or `unknown`.
pub const REQUESTED_BY: &str = "io.delegate-upgrader.requested-by";
/// The same: why, in the operator's words.
pub const REQUEST_REASON: &str = "io.delegate-upgrader.request-reason";
/// `true` on a copy of a delegate whose original could no longer be started or was gone. The copy has the history of its
/// original, and does not count as a release.
pub const COPY: &str = "io.delegate-upgrader.copy";

/// The labels that only we write. The labels of a release replace those of the previous release.
pub const OURS: [&str; 17] = [
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
    RECONFIGURED,
    REQUESTED_BY,
    REQUEST_REASON,
];

/// The labels with a delegate's own history before its release, which a copy of the delegate also gets.
pub const HISTORY: [&str; 6] = [
    PREVIOUS_RELEASE,
    PREVIOUS_IMAGE,
    PREVIOUS_IMAGE_ID,
    FORMER_IMAGES,
    ROLLED_BACK_FROM,
    ROLLED_BACK_FROM_ID,
];

/// Whether these labels show that we created the container for `base`. An owner may write or copy one of the labels, but
/// hardly all of them, and hardly a container's full id.
pub(crate) fn are_ours<'a>(label: impl Fn(&str) -> Option<&'a str>, base: &str) -> bool {
    let is_id = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    label(NAME) == Some(base) && label(REPLACES).is_some_and(is_id) && label(RELEASE).is_some()
}
