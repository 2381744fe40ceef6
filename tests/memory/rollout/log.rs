//! The log of one run, as a user reads it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt as _;

use super::faults::Way;
use super::host::{Host, NEW, NEWER, good, row};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use kit::twin::{Behaviour, Fault, Operation};

/// The log lines of this work.
pub(super) async fn log_of<T>(work: impl Future<Output = T>) -> Vec<String> {
    // Other tests run at the same time without a subscriber. With a global subscriber, which wants every line and writes
    // none, no line that they log first is cached as unwanted.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.reopen().unwrap())
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    work.await;
    drop(guard);
    let text = std::fs::read_to_string(&log).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The sentence of a line, with `ID` and `TIME` in place of the parts that differ in each run.
fn sentence(line: &str) -> String {
    let sentence = line.split(" container=").next().unwrap().trim();
    let mut words = Vec::new();
    for word in sentence.split(' ') {
        let is_id = word.trim_end_matches(':').len() == 14 && word.starts_with('(');
        words.push(match word.split_once(".draining-") {
            _ if is_id => format!("(ID){}", &word[14..]),
            Some((name, _)) => format!("{name}.draining-TIME"),
            None => word.to_owned(),
        });
    }
    words.join(" ")
}

#[tokio::test(start_paused = true)]
async fn logs_each_step_with_its_result() {
    let host = Host::new();
    host.run("dd");
    let log = log_of(host.once(NEW)).await;
    let sentences: Vec<String> = log.iter().map(|line| sentence(line)).collect();
    let expected = [
        "INFO delegate is healthy",
        "INFO pulling harness/delegate:26.03.1",
        "INFO pulled harness/delegate:26.03.1",
        "INFO creating the candidate with harness/delegate:26.03.1",
        "INFO created the candidate",
        "INFO preparing dd.candidate",
        "INFO prepared dd.candidate",
        "INFO starting dd.candidate (ID)",
        "INFO started dd.candidate",
        "INFO the new container has been healthy for 0s of 10s (unhealthy: http://172.17.0.3:3460/api/health answers 503)",
        "INFO the new container has been healthy for 0s of 10s (healthy: http://172.17.0.3:3460/api/health answers 200)",
        "INFO retiring the old container (ID) as dd.retired",
        "INFO renamed the old container to dd.retired",
        "INFO promoting the candidate (ID) to dd",
        "INFO renamed the candidate to dd",
        "INFO naming the old container (ID) dd.draining-TIME before it is asked to stop",
        "INFO renamed the old container to dd.draining-TIME",
        "INFO asking dd.draining-TIME (ID) to stop within 1h",
        "INFO asked dd.draining-TIME to stop",
        "INFO dd.draining-TIME is finishing its tasks; it has until 2026-01-01T01:00:18Z",
        "INFO removing dd.draining-TIME (ID)",
        "INFO removed dd.draining-TIME",
        "INFO replaced; the old container is gone",
        "INFO runs the published image harness/delegate:26.03.1",
    ];
    assert_eq!(sentences, expected, "{log:#?}");
    for line in &log[1..] {
        assert!(
            line.contains("container=\"dd\" workload=\"docker-delegate\""),
            "{line}"
        );
    }
    let has_result = |line: &&String| line.contains(" seconds=");
    assert_eq!(log.iter().filter(has_result).count(), 9, "{log:#?}");
}

/// The next run starts when the pull fails, and pulls the image again.
#[tokio::test(start_paused = true)]
async fn logs_a_pull_that_fails_as_the_next_run_begins() {
    let host = Host::new();
    host.twin.break_pull(NEW, Some("connection reset by peer"));
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let log = log_of(async {
        for _ in 0..2 {
            upgrader.start_run(Intent::Upgrade);
            upgrader.reconcile().await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    })
    .await;
    let sentences: Vec<String> = log.iter().map(|line| sentence(line)).collect();
    let expected = [
        "INFO delegate is healthy",
        "INFO pulling harness/delegate:26.03.1",
        "WARN cannot pull harness/delegate:26.03.1: connection reset by peer",
        "INFO pulling harness/delegate:26.03.1",
    ];
    assert_eq!(sentences, expected, "{log:#?}");
}

#[tokio::test(start_paused = true)]
async fn does_not_log_a_refused_start_as_done() {
    let host = Host::new();
    host.run("dd");
    let start_error = Some("no such program".to_owned());
    host.publish(
        NEWER,
        Behaviour {
            start_error,
            ..good()
        },
    );
    let log = log_of(host.once(NEWER)).await;
    let of_start = |line: &&String| line.contains("dd.candidate (");
    let of_start: Vec<String> = log.iter().filter(of_start).map(|line| sentence(line)).collect();
    assert_eq!(
        of_start,
        [
            "INFO starting dd.candidate (ID)",
            "WARN skipped starting dd.candidate (ID): no such program",
        ],
        "{log:#?}"
    );
    assert!(!log.iter().any(|line| line.contains("started dd")), "{log:#?}");
}

/// In each way of replacement. With `--rm`, the old one is recreated.
#[tokio::test(start_paused = true)]
async fn does_not_log_restored_container_as_replaced() {
    for way in Way::ALL {
        let host = way.host();
        host.publish(NEW, Behaviour::exits(Duration::ZERO, 3));
        let failed = log_of(host.once(NEW)).await.join("\n");
        assert!(!failed.contains("replaced"), "{way:?}: {failed}");
        assert!(failed.contains("rejecting the candidate"), "{way:?}: {failed}");
        let restored = failed.matches("restored; the old container is in service");
        assert_eq!(
            restored.count(),
            usize::from(way.stops_first()),
            "{way:?}: {failed}"
        );
        host.publish(NEWER, good());
        let replaced = log_of(host.once(NEWER)).await.join("\n");
        assert!(
            replaced.contains("replaced; the old container is gone"),
            "{way:?}: {replaced}"
        );
    }
}

/// Collects the field names of all logged events.
#[derive(Clone, Default)]
struct Fields(Arc<Mutex<BTreeSet<&'static str>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Fields {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if event.metadata().target().starts_with("delegate_upgrader") {
            let names = event.metadata().fields().iter().map(|field| field.name());
            self.0.lock().unwrap().extend(names);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_names_each_field_of_the_log() {
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    let fields = Fields::default();
    let subscriber = tracing_subscriber::registry().with(fields.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    for bad in [false, true] {
        let mut host = Host::new();
        host.free_disk = Some(1 << 40);
        host.endpoint.tasks = |twin, _| Some(twin.elapsed().as_secs() / 40);
        if bad {
            host.publish(NEW, Behaviour::never_healthy());
        }
        host.run("aa");
        host.run("bb");
        host.once(NEW).await;
        if !bad {
            host.finish(&mut host.rollback(NEW, "aa").await).await;
        }
        host.run_with("cc", |_| ());
        host.fault(Operation::Create, Fault::Refuse(500));
        host.continue_for(&mut host.upgrader(NEWER), Duration::from_secs(60))
            .await;
    }
    drop(guard);
    let page = include_str!("../../../docs/usage/log.md");
    let (_, table) = page.split_once("\n## JSON\n").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let columns = rows.filter_map(|row| row.split(" | ").next());
    let listed: BTreeSet<&str> = columns
        .flat_map(|column| column.split(", "))
        .map(|name| name.trim_matches('`'))
        .collect();
    let found = fields.0.lock().unwrap();
    assert!(found.len() > 12, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|name| !listed.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_changes_nothing_logs_nothing_for_a_delegate() {
    let host = Host::new();
    host.run("aa");
    host.run("bb");
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    let log = log_of(host.scheduled_run(&mut upgrader)).await;
    assert!(log.is_empty(), "{log:#?}");
    // The outcome of each run includes a lasting failure.
    host.publish(NEWER, Behaviour::never_healthy());
    let mut upgrader = host.upgrader(NEWER);
    host.scheduled_run(&mut upgrader).await;
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(
        report.summary(),
        "0 of 2 delegates OK, 2 failed: aa (quarantined) and 1 more"
    );
}

#[tokio::test(start_paused = true)]
async fn shows_pull_progress_and_logs_it_at_most_every_30_seconds() {
    const MIB: u64 = 1024 * 1024;
    let host = Host::new();
    let mut image = host.twin.image(good());
    // The engine reports each quarter.
    image.pull_time = Duration::from_secs(80);
    host.twin.publish(NEWER, image);
    host.run("dd");
    let mut upgrader = host.starting(NEWER);
    let mut shown = None;
    let lines = log_of(async {
        assert!(
            host.continue_for(&mut upgrader, Duration::from_secs(50))
                .await
                .is_none()
        );
        let report = upgrader.reconcile().await.unwrap();
        let row = row(&report, "dd");
        assert_eq!(row.reason.as_str(), "pulling");
        assert_eq!(report.summary(), "1 of 1 delegate OK, 1 in progress");
        shown = row.pull.clone();
        let report = host.finish(&mut upgrader).await;
        assert_eq!(report.delegates[0].pull, None, "it is over");
    })
    .await;
    let shown = shown.unwrap();
    assert_eq!((shown.current, shown.total), (250 * MIB, 500 * MIB));
    // A quarter, 125 MiB, has come in the half minute since the first.
    assert!((4 * MIB..=5 * MIB).contains(&shown.rate), "{shown:?}");
    assert!((50..=65).contains(&shown.eta.unwrap()), "{shown:?}");
    let told: Vec<&String> = lines.iter().filter(|line| line.contains("pulling: ")).collect();
    let [half, whole] = told.as_slice() else {
        panic!("{told:#?}")
    };
    assert!(
        half.contains("pulling: 50 % of 500 MiB, 6 MiB/s, 40s left"),
        "{half}"
    );
    assert!(whole.contains("pulling: 100 % of 500 MiB"), "{whole}");
}
