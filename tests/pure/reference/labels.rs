//! `docs/reference/labels.md`: the labels for owners, and the labels that the upgrader writes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use delegate_upgrader::container::label;
use delegate_upgrader::managed::label as record;
use kit::page;

const PAGE: &str = "docs/reference/labels.md";

/// The labels for owners: the label, its values, and its effect.
#[rustfmt::skip]
const OWNERS: &[(&str, &str, &str)] = &[
    (label::ENABLE, "`false`, `no`, `off`, `0`", "never upgrade this delegate; its health is still reported"),
    (label::WATCHTOWER_ENABLE, "the same", "the same, where the label above is missing"),
    (label::UPDATE_ORDER, "as `UPDATE_ORDER`", "overrides the setting; any other value is ignored with a warning"),
    (label::PIN, "a version or a month, such as `26.03.88501` or `26.03`", "only that version, or the versions of that month, may be installed; other versions wait ([`pinned`](reasons.md#pinned))"),
    (label::SNOOZE_UNTIL, "a date or a time in `TZ`, such as `2026-12-01` or `2026-12-01T08:00`, or one with its offset", "no upgrade starts before then ([`snoozed`](reasons.md#snoozed))"),
    (label::WINDOW, "as [`UPGRADE_WINDOW`](../usage/schedules.md#upgrade-windows)", "its own window, instead of that"),
    (label::HEALTHY_DEADLINE, "a duration longer than `UPGRADE_HEALTHY_TIME`, of which 30 days count", "overrides `UPGRADE_HEALTHY_DEADLINE`, for a delegate that starts slowly; any other value is ignored"),
    (label::STOP_TIMEOUT, "a duration, of which 30 days count", "overrides `CONTAINER_STOP_TIMEOUT` and `--stop-timeout`; any other value is ignored with a warning"),
];

/// The labels that the upgrader writes: the label, the containers that have it, and its value.
#[rustfmt::skip]
const WRITTEN: &[(&str, &str, &str)] = &[
    (label::REPLACES, "all", "the full id of the container it replaces"),
    (label::NAME, "all", "the name it was created to take"),
    (label::RELEASE, "all", "the number of the attempt that made it: one more than the highest on the delegate's containers then"),
    (label::PREVIOUS_RELEASE, "a candidate, and a copy of one", "the release of the previous container; 0 if its owner made it"),
    (label::PREVIOUS_IMAGE, "the same", "the image reference of the previous container"),
    (label::PREVIOUS_IMAGE_ID, "the same", "the id of that image"),
    (label::FORMER_IMAGES, "the same, from the second upgrade on", "the ids of the images that the upgrader brought before, the latest first: `KEEP_IMAGES` of them stay"),
    (label::FINGERPRINT, "a candidate", "a fingerprint of those settings of the previous container that can change while it runs: limits, restart policy, networks"),
    (label::AUTO_REMOVE, "the successors of a delegate with `--rm`", "`true`: the upgrader removes the container once it has ended for ten seconds"),
    (label::NETWORKS, "a candidate or copy that the engine could not create with all of its networks", "the networks it is connected to before its start"),
    (label::COPY, "a copy of a delegate that could not be started again, or was gone", "`true`: it has the history of its original, and is not a release of its own"),
    (label::IMAGE, "where the image had to be named by its id", "the image reference"),
    (label::ROLLED_BACK_FROM, "a container that `rollback` created", "the image reference that `rollback` left"),
    (label::ROLLED_BACK_FROM_ID, "a container that `rollback` created", "the id of that image"),
    (label::RECONFIGURED, "a container that `reconfigure` or its `rollback` created", "the names of the settings in which it differs from the previous container, such as `env.JAVA_OPTS,label.team,memory`"),
    (label::REQUESTED_BY, "a container that `retry`, `rollback` or `reconfigure` created; also on a service and on the volume of a pause", "who asked for it, or `unknown`"),
    (label::REQUEST_REASON, "the same", "why, if the operator said so"),
];

/// The labels that the upgrader writes on empty volumes: the label, its volume, and its value.
#[rustfmt::skip]
const RECORDS: &[(&str, &str, &str)] = &[
    (label::RECORD, "an empty volume", "`pause`, `first-seen` or `rejected`: the record of [a pause](../usage/changing.md#pause-and-resume) or its end, perhaps of one delegate (`io.delegate-upgrader.name`), of [an image](../usage/schedules.md#delay-and-waves) (`io.delegate-upgrader.image`), or of a rejected candidate, which keeps its image in quarantine (with `io.delegate-upgrader.release`)"),
    (label::SINCE, "such a volume", "when it was made"),
    (label::IMAGE_ID, "the volume of a rejection", "the id of the image"),
    (label::ATTEMPT, "the same", "how many candidates of the image had been rejected by then"),
    (label::UNTIL, "the volume of a pause or a rejection", "when the pause or the quarantine ends, if that is known"),
];

/// The labels that the upgrader writes on services: the label, and its value.
#[rustfmt::skip]
const OF_SERVICES: &[(&str, &str)] = &[
    (record::HISTORY, "the last five attempts that are over, each with its number, outcome, time and image; more than two failures make room first"),
    (record::ATTEMPT_IMAGE, "the image that was tried last"),
    (record::ATTEMPT_FROM, "the image before that"),
    (record::ATTEMPT_SINCE, "when that attempt started"),
    (record::ATTEMPT_REVISION, "of a Deployment: its revision before that attempt"),
    (record::ATTEMPT_INTENT, "`upgrade`, `retry`, `rollback` or `reconfigure`"),
    (record::ATTEMPT_APPLIED, "`true` once the service was given the image"),
    (record::ATTEMPT_FAILED, "why the upgrader restored the previous image, where Swarm did not do that itself; or why the new settings failed"),
    (record::SETTINGS, "on the containers of its tasks, or in an annotation of the pods: the release that last changed their settings, and the names of these, such as `3 env.DELEGATE_TOKEN`"),
    (record::FAILED_IMAGE, "the image that failed last"),
    (record::FAILED_ATTEMPTS, "how many times in a row"),
    (record::FAILED_AT, "when it failed last"),
    (record::FAILED_CAUSE, "why"),
];

/// The labels in a source file, where each is a constant.
fn known(source: &'static str) -> BTreeSet<&'static str> {
    let constants = source.lines().filter_map(|line| line.split_once(": &str = \""));
    constants
        .map(|(_, rest)| rest.split('"').next().unwrap())
        .collect()
}

fn table(head: &str, rows: &[(&str, &str, &str)]) -> String {
    let mut table = format!("{head}\n|---|---|---|\n");
    for (label, second, third) in rows {
        let _ = writeln!(table, "| `{label}` | {second} | {third} |");
    }
    table
}

#[test]
fn the_page_has_every_label() {
    let names = |rows: &[(&'static str, &str, &str)]| -> BTreeSet<&'static str> {
        rows.iter().map(|(name, ..)| *name).collect()
    };
    assert_eq!(names(WRITTEN), label::OURS.into());
    let of_containers = &names(OWNERS) | &names(WRITTEN);
    let known_of_containers = known(include_str!("../../../src/container/label.rs"));
    assert_eq!(&of_containers | &names(RECORDS), known_of_containers);
    let of_services: BTreeSet<&str> = OF_SERVICES.iter().map(|(name, _)| *name).collect();
    assert_eq!(of_services, known(include_str!("../../../src/managed/label.rs")));
    let rows = OF_SERVICES
        .iter()
        .map(|(label, value)| format!("| `{label}` | {value} |\n"));
    let table_of_services = format!("| label | value |\n|---|---|\n{}", rows.collect::<String>());
    page::has(PAGE, "services", &table_of_services);
    page::has(PAGE, "owners", &table("| label | values | meaning |", OWNERS));
    page::has(PAGE, "records", &table("| label | on | value |", RECORDS));
    page::has(PAGE, "written", &table("| label | on | value |", WRITTEN));
}
