//! Whether the daemon's loop is alive: a stuck loop is not, whatever else works.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::config::ProbeKind;
use delegate_upgrader::daemon::{self, Options, clock_of_the_loop};
use delegate_upgrader::health::http::plain_client;
use delegate_upgrader::manager::HttpManager;
use delegate_upgrader::reconcile::Reconciler;
use delegate_upgrader::schedule::zone::Zone;
use delegate_upgrader::schedule::{Schedule, trigger};
use delegate_upgrader::status::hosts::Hosts;
use delegate_upgrader::status::liveness::Liveness;
use delegate_upgrader::status::server::Server;
use delegate_upgrader::status::{Mode, Status};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::sleep;

use crate::endpoint::Endpoint;
use kit::twin::{Behaviour, Fault, Twin, delegate_body};

const IMAGE: &str = "harness/delegate:26.02.1";
const SECOND: Duration = Duration::from_secs(1);

/// A daemon in a [`LocalSet`] that looks after one delegate, and the liveness of its loop.
fn daemon(twin: &Twin, health_interval: Duration) -> (Liveness, JoinHandle<Option<()>>) {
    twin.add_image(IMAGE, twin.image(Behaviour::drains(SECOND)));
    twin.run("dd", &delegate_body("docker-delegate", IMAGE));
    let mut settings = crate::settings::settings();
    settings.policy.health_only = true;
    settings.scope.health.interval = health_interval;
    settings.scope.health.probe = ProbeKind::Running;
    let schedule = Schedule::parse("0 0 1 1 *", Zone::utc()).unwrap();
    let options = Options {
        schedule: schedule.clone(),
        health_interval,
        run_on_start: false,
        health_only: true,
        listeners: Arc::default(),
        has_mounted_socket: true,
    };
    let liveness = Liveness::default();
    let (wall, engine, endpoint) = (twin.clone(), twin.clone(), Endpoint::new(twin));
    let clock = clock_of_the_loop(Arc::new(move || wall.wall_clock()), liveness.clone());
    let heard_of = liveness.clone();
    let ended = tokio::task::spawn_local(async move {
        let reconciler = Reconciler::new(engine, None::<HttpManager>, endpoint, settings, clock);
        let trigger = trigger::start(schedule, Duration::ZERO).await.unwrap();
        let (publisher, _reader) = watch::channel(Status::new(Mode::HealthOnly, "0 0 1 1 *", Utc::now()));
        let never = std::future::pending::<()>();
        daemon::run(reconciler, trigger, options, publisher, heard_of, never).await
    });
    (liveness, ended)
}

/// Makes every call take this much longer.
fn slow(twin: &Twin, by: Duration) {
    twin.set_faults(move |_| Fault::Slow(by));
}

#[tokio::test(start_paused = true)]
async fn the_daemon_exits_after_five_minutes_with_a_dead_mounted_socket() {
    let local = LocalSet::new();
    local
        .run_until(async {
            let twin = Twin::default();
            let (liveness, ended) = daemon(&twin, SECOND * 60);
            sleep(SECOND * 90).await;
            twin.set_faults(|_| Fault::ErrBefore);
            // The observation begins at the end of the second minute.
            sleep(SECOND * (30 + 59)).await;
            assert_eq!(liveness.problem(), None);
            sleep(SECOND * 6).await;
            let problem = liveness.problem().expect("nothing answers");
            assert!(
                problem.starts_with("nothing has answered at the mounted Docker socket for 1m"),
                "{problem}"
            );
            twin.set_faults(|_| Fault::None);
            sleep(SECOND * 6).await;
            assert_eq!(liveness.problem(), None, "an engine that is back makes it well");
            twin.set_faults(|_| Fault::ErrBefore);
            // The next observation comes within a minute.
            sleep(SECOND * 295).await;
            assert!(!ended.is_finished());
            sleep(SECOND * (60 + 12)).await;
            assert!(ended.is_finished());
            assert_eq!(ended.await.unwrap(), None);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_call_that_hangs_for_six_minutes_fails_liveness() {
    let local = LocalSet::new();
    local
        .run_until(async {
            let twin = Twin::default();
            let (liveness, _) = daemon(&twin, SECOND * 60);
            sleep(SECOND * 90).await;
            assert_eq!(liveness.problem(), None);
            slow(&twin, SECOND * 1_000_000);
            // The observation begins at the end of the second minute.
            sleep(SECOND * (30 + 355)).await;
            assert_eq!(liveness.problem(), None);
            sleep(SECOND * 35).await;
            let problem = liveness.problem().expect("the loop does not get on");
            assert!(
                problem.starts_with("the loop should have ended an observation or a step at ")
                    && problem.ends_with(" and is 1m30s late"),
                "{problem}"
            );
            let (status, answer) = livez(liveness).await;
            assert_eq!(
                (status, answer.contains(" is 1m30s late")),
                (503, true),
                "{answer}"
            );
        })
        .await;
}

/// The answer of `/livez` over a real socket, in real time.
async fn livez(liveness: Liveness) -> (u16, String) {
    tokio::time::resume();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/livez", listener.local_addr().unwrap());
    let (_publisher, status) = watch::channel(Status::new(Mode::HealthOnly, "0 0 1 1 *", Utc::now()));
    let hosts = Hosts::new([]);
    let server = Server {
        status,
        liveness,
        hosts,
    };
    tokio::task::spawn_local(server.serve(listener));
    let answer = plain_client().unwrap().get(url).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_loop_whose_calls_all_finish_in_time_stays_alive_for_hours() {
    let local = LocalSet::new();
    local
        .run_until(async {
            for interval in [1, 60, 7200] {
                let twin = Twin::default();
                let (liveness, _) = daemon(&twin, SECOND * interval);
                slow(&twin, SECOND * 59);
                for _ in 0..500 {
                    sleep(SECOND * 30).await;
                    assert_eq!(liveness.problem(), None, "every {interval} s");
                }
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_missed_by_over_a_minute_is_a_problem() {
    let liveness = Liveness::default();
    liveness.wakes_in(SECOND * 600);
    sleep(SECOND * 660).await;
    assert_eq!(liveness.problem(), None);
    sleep(SECOND * 30).await;
    let problem = liveness.problem().expect("it is late");
    let rest = problem.strip_prefix("the loop should have woken at ");
    let (at, late) = rest.and_then(|rest| rest.split_once(' ')).expect("a time");
    assert_eq!(late, "and is 1m30s late");
    let at = DateTime::parse_from_rfc3339(at).unwrap().to_utc();
    let off = Utc::now() - TimeDelta::seconds(90) - at;
    assert!(off.abs() <= TimeDelta::seconds(3), "{problem}");
    liveness.works();
    assert_eq!(liveness.problem(), None);
    liveness.wakes_in(Duration::MAX);
    assert_eq!(liveness.problem(), None);
}
