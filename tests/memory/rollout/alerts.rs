//! Alerts that fire elsewhere hold upgrades back, and so does a replica that has just taken the image.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delegate_upgrader::alerts::{Alert, AskAlerts, Firing, Unanswered};
use delegate_upgrader::config::{AlertHold, Timing};
use delegate_upgrader::container::Request;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::text::secret::Secret;
use futures_util::FutureExt as _;
use kit::twin::{Behaviour, Fault, Operation, Wellness};

use super::host::{HOUR, Host, NEW, NEWER, OLD, Upgrader, good, row};

/// How often the daemon reconciles.
const MINUTE: Duration = Duration::from_secs(60);

/// A Prometheus with this answer; without one, the question ends after four seconds. It counts the questions.
#[derive(Clone)]
struct Prometheus(Arc<Mutex<(Option<Firing>, usize)>>);

impl Prometheus {
    fn new(answer: Option<Firing>) -> Self {
        Self(Arc::new(Mutex::new((answer, 0))))
    }

    fn answers(&self, answer: Firing) {
        self.0.lock().unwrap().0 = Some(answer);
    }

    fn upgrader(&self, host: &Host) -> Upgrader {
        let known = Arc::clone(&self.0);
        let ask: AskAlerts = Arc::new(move || {
            let mut known = known.lock().unwrap();
            known.1 += 1;
            match known.0.clone() {
                Some(answer) => std::future::ready(answer).boxed(),
                None => tokio::time::sleep(Duration::from_secs(4))
                    .map(|()| refusal(false))
                    .boxed(),
            }
        });
        host.upgrader(NEW).with_alerts(Some(ask))
    }
}

fn alert(name: &str, image: Option<&str>) -> Alert {
    Alert {
        name: name.to_owned(),
        image: image.map(str::to_owned),
        is_ended_by_upgrade: false,
    }
}

fn refusal(is_refused: bool) -> Firing {
    let problem = "connection refused".to_owned();
    Err(Unanswered { problem, is_refused })
}

/// A host with one delegate.
fn host(timeout: Option<Duration>) -> Host {
    let alerts = Some(AlertHold {
        alerts: "Image.*".to_owned(),
        url: Secret::new("http://prometheus"),
        token: None,
        timeout,
    });
    let mut host = Host::new();
    host.settings.policy.timing.alerts = alerts;
    host.run("dd");
    host
}

/// Reconciles each minute, as the daemon does. Returns the last reason.
async fn for_a_time(host: &Host, upgrader: &mut Upgrader, time: Duration) -> &'static str {
    let end = host.twin.elapsed() + time;
    loop {
        let report = host.finish(upgrader).await;
        if host.twin.elapsed() >= end {
            return row(&report, "dd").reason.as_str();
        }
        tokio::time::sleep(MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_waits_until_the_alert_ends() {
    let (host, prometheus) = (
        host(None),
        Prometheus::new(Some(Ok(vec![alert("ImageRejected", None)]))),
    );
    let mut upgrader = prometheus.upgrader(&host);
    let report = host.scheduled_run(&mut upgrader).await;
    let words = format!("{NEW} is published, but alerts fire (HOLD_ON_ALERTS): ImageRejected");
    assert_eq!(row(&report, "dd").message, words);
    assert!(report.has_succeeded());
    assert_eq!(for_a_time(&host, &mut upgrader, 3 * HOUR).await, "alert_firing");
    assert_eq!(host.count(Operation::Pull), 0);
    let asked = prometheus.0.lock().unwrap().1;
    assert!((150..=200).contains(&asked), "{asked}");
    // Neither another image nor what an upgrade ends holds it.
    let mut cured = alert("UpgraderOutdated", None);
    cured.is_ended_by_upgrade = true;
    prometheus.answers(Ok(vec![alert("ImageRejected", Some(NEWER)), cured]));
    for_a_time(&host, &mut upgrader, HOUR).await;
    assert_eq!(host.find("dd").image, NEW);
}

/// As fleet.md says of canaries.
#[tokio::test(start_paused = true)]
async fn the_host_that_rejected_an_image_waits_for_its_own_alert_until_a_retry() {
    let (host, prometheus) = (host(None), Prometheus::new(Some(Ok(Vec::new()))));
    host.publish(NEW, Behaviour::never_healthy());
    let mut upgrader = prometheus.upgrader(&host);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    prometheus.answers(Ok(vec![alert("ImageRejected", Some(NEW))]));
    tokio::time::sleep(5 * HOUR).await;
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "alert_firing", "{report:?}");
    host.twin.set_behaviour(NEW, &Behaviour::default());
    upgrader.retry("dd", Request::default()).await.unwrap();
    host.finish(&mut upgrader).await;
    assert_eq!(
        (host.find("dd").image.as_str(), host.names()),
        (NEW, vec!["dd".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn once_waits_for_the_answer_and_plan_shows_it() {
    let (host, prometheus) = (
        host(None),
        Prometheus::new(Some(Ok(vec![alert("A", Some(NEW)), alert("B", None)]))),
    );
    let plan = prometheus.upgrader(&host).plan(|_| ()).await.unwrap();
    assert!(
        plan[0].message.ends_with("alerts fire (HOLD_ON_ALERTS): A, B"),
        "{plan:?}"
    );
    prometheus.answers(Ok(Vec::new()));
    let report = host.scheduled_run(&mut prometheus.upgrader(&host)).await;
    assert_eq!(row(&report, "dd").image, NEW);
}

/// An engine that hangs delays the observation after the answer.
#[tokio::test(start_paused = true)]
async fn an_answer_ages_while_the_engine_is_observed() {
    let (host, fires) = (host(None), Arc::new(Mutex::new(Vec::new())));
    let known = Arc::clone(&fires);
    let ask: AskAlerts = Arc::new(move || {
        let answer = known.lock().unwrap().clone();
        let later = tokio::time::sleep(Duration::from_secs(4));
        later.map(|()| Ok(answer)).boxed()
    });
    let mut upgrader = host.upgrader(NEW).with_alerts(Some(ask));
    upgrader.start_run(Intent::Upgrade);
    let asks = host.continue_for(&mut upgrader, Duration::from_secs(2)).await;
    assert!(asks.is_none(), "the question is open");
    fires.lock().unwrap().push(alert("A", None));
    tokio::time::sleep(MINUTE).await;
    assert_eq!(for_a_time(&host, &mut upgrader, HOUR).await, "alert_firing");
    assert_eq!(host.count(Operation::Pull), 0);
}

/// The alert fires once the candidate is there.
#[tokio::test(start_paused = true)]
async fn finishes_a_replacement_that_began_before() {
    let (host, prometheus) = (host(None), Prometheus::new(Some(Ok(Vec::new()))));
    let ready_after = MINUTE;
    host.publish(
        NEW,
        Behaviour {
            ready_after,
            ..good()
        },
    );
    host.run("ee");
    let now_fires = prometheus.clone();
    host.twin.set_faults(move |call| {
        if call.operation == Operation::Start {
            now_fires.answers(Ok(vec![alert("A", None)]));
        }
        Fault::None
    });
    let mut upgrader = prometheus.upgrader(&host);
    host.scheduled_run(&mut upgrader).await;
    assert_eq!(for_a_time(&host, &mut upgrader, HOUR).await, "up_to_date");
    assert_eq!(["dd", "ee"].map(|name| host.find(name).image), [NEW, OLD]);
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_silent_prometheus_as_long_as_it_may() {
    for (timeout, is_refused, image) in [
        (None, false, OLD),
        (Some(2 * HOUR), false, NEW),
        (Some(Duration::ZERO), false, NEW),
        // A wrong regular expression is not silence.
        (Some(2 * HOUR), true, OLD),
    ] {
        let (host, prometheus) = (host(timeout), Prometheus::new(Some(refusal(is_refused))));
        let mut upgrader = prometheus.upgrader(&host);
        let report = host.scheduled_run(&mut upgrader).await;
        let first = row(&report, "dd");
        if timeout != Some(Duration::ZERO) {
            assert_eq!((first.reason.as_str(), first.failed), ("alerts_unknown", true));
            for_a_time(&host, &mut upgrader, HOUR).await;
            assert_eq!(host.find("dd").image, OLD);
        }
        for_a_time(&host, &mut upgrader, 2 * HOUR).await;
        assert_eq!(host.find("dd").image, image, "{timeout:?} {is_refused}");
    }
}

/// It only starts no upgrade: what it observes is reported, and an operator does not wait.
#[tokio::test(start_paused = true)]
async fn nothing_else_waits_for_an_answer() {
    let (host, prometheus) = (host(None), Prometheus::new(None));
    let mut upgrader = prometheus.upgrader(&host);
    host.publish(NEW, good());
    upgrader.start_run(Intent::Upgrade);
    assert!(
        host.continue_for(&mut upgrader, Duration::from_secs(2))
            .await
            .is_none(),
        "the question is open"
    );
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_answer");
    assert_eq!(prometheus.0.lock().unwrap().1, 1);
    upgrader.start_run(Intent::Retry(Request::default()));
    host.finish(&mut upgrader).await;
    assert_eq!(host.find("dd").image, NEW);
}

/// Three replicas, each observation by another process.
#[tokio::test(start_paused = true)]
async fn the_next_replica_waits_for_the_last_one() {
    let soak = HOUR;
    let mut host = host(None);
    host.settings.policy.timing = Timing {
        soak,
        ..Timing::default()
    };
    let health = Wellness::For(2 * soak - 10 * MINUTE);
    host.publish(NEW, Behaviour { health, ..good() });
    for name in ["ee", "ff"] {
        host.run(name);
    }
    let taken = |host: &Host| {
        ["dd", "ee", "ff"]
            .map(|name| host.find(name))
            .into_iter()
            .filter(|it| it.image == NEW)
            .count()
    };
    host.once(NEW).await;
    assert_eq!(taken(&host), 1);
    let report = host.once(NEW).await;
    let waits = row(&report, "ff");
    assert_eq!(waits.reason.as_str(), "soaking");
    let left = waits.until.unwrap() - host.twin.wall_clock();
    assert!(left.to_std().unwrap() < soak, "{left}");
    tokio::time::sleep(left.to_std().unwrap() - MINUTE).await;
    host.once(NEW).await;
    assert_eq!(taken(&host), 1);
    tokio::time::sleep(MINUTE).await;
    host.once(NEW).await;
    assert_eq!(taken(&host), 2);
    // An unhealthy one holds the last replica, however long the others have run.
    tokio::time::sleep(soak).await;
    let report = host.once(NEW).await;
    let waits = row(&report, "ff");
    let words = format!("{NEW} is published, but dd, which runs it first (UPGRADE_SOAK), is not healthy: ");
    assert!(waits.message.starts_with(&words), "{}", waits.message);
    assert_eq!((taken(&host), waits.until), (2, None));
}
