//! Whatever fails, whenever it fails: a whole rollout, with a fault at every single call.

use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::container::{ApiVersion, ContainerId};
use delegate_upgrader::engine::Engine;
use delegate_upgrader::reconcile::controller::Controller as _;
use serde_json::json;
use tokio::sync::Notify;

use super::host::{
    HOUR, Host, NEW, NEWER, OLD, auto_remove, good, host_network, never_restarted, published_port,
};
use kit::twin::{Behaviour, Call, Fault, Happened, Twin, TwinSettings};

/// The way in which a delegate is replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    StartFirst,
    StopFirst,
    /// With `--rm`, start-first.
    Fleeting,
    /// With `--rm`, stop-first.
    FleetingStopFirst,
}

use Way::{Fleeting, FleetingStopFirst, StartFirst, StopFirst};

impl Way {
    pub const ALL: [Self; 4] = [StartFirst, StopFirst, Fleeting, FleetingStopFirst];

    pub fn stops_first(self) -> bool {
        matches!(self, StopFirst | FleetingStopFirst)
    }

    pub fn is_fleeting(self) -> bool {
        matches!(self, Fleeting | FleetingStopFirst)
    }

    pub fn host(self) -> Host {
        let host = Host::new();
        self.run_on(&host);
        host
    }

    fn run_on(self, host: &Host) -> ContainerId {
        host.run_with("dd", |body| {
            if self == StopFirst {
                host_network(body);
            }
            if self == FleetingStopFirst {
                published_port(body);
            }
            if self.is_fleeting() {
                auto_remove(body);
            }
        })
    }
}

/// The distance between two tested points: `usual`, or 1 with EVERY_CALL=1, which `make sim` sets.
pub fn stride(usual: usize) -> usize {
    if std::env::var_os("EVERY_CALL").is_some() {
        1
    } else {
        usual
    }
}

/// The points for faults: every third one, starting at `first`; or all.
pub fn points(first: usize) -> impl Iterator<Item = usize> {
    let stride = stride(3);
    (first % stride..).step_by(stride)
}

/// Kills an upgrading process at the first matching call, which never reaches the engine. `false` without such a call.
pub async fn killed_when(host: &Host, when: impl FnMut(&Call) -> bool + Send + 'static) -> bool {
    let mut upgrader = host.upgrader(NEW);
    killed_during(host, when, host.scheduled_run(&mut upgrader)).await
}

/// Kills a process in a run once it has made this many changes.
pub async fn killed_after_writes(host: &Host, done: usize) -> bool {
    let mut writes = 0;
    let is_too_many = move |call: &Call| {
        writes += usize::from(call.is_write());
        writes > done
    };
    killed_when(host, is_too_many).await
}

/// Kills a process at the first matching call of this work.
pub async fn killed_during<T>(
    host: &Host,
    mut when: impl FnMut(&Call) -> bool + Send + 'static,
    work: impl Future<Output = T>,
) -> bool {
    let killed = Arc::new(Notify::new());
    let kill = Arc::clone(&killed);
    host.twin.set_faults(move |call| {
        if when(call) {
            kill.notify_one();
        }
        Fault::None
    });
    let done = tokio::select! {
        biased;
        () = killed.notified() => false,
        _ = work => true,
    };
    host.twin.clear_faults();
    !done
}

fn assert_kept_promise(host: &Host, way: Way, context: &str) {
    if way.is_fleeting() {
        host.assert_fleeting_on("dd", NEW, context);
    } else {
        host.assert_settled_on("dd", NEW, context);
    }
    if !way.stops_first() {
        assert_eq!(host.fewest_working(), 1, "{context}");
    }
    for event in host.twin.events().iter() {
        assert!(
            !matches!(event.what, Happened::Exited { code } if code != 0),
            "{context}: tasks were cut short: {event:?}"
        );
    }
}

/// The runs of a day, one per hour, until one succeeds: the delegate runs the new image and nothing is left over.
async fn hourly(host: &Host) {
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..24 {
        let report = host.scheduled_run(&mut upgrader).await;
        if !report.has_failures() {
            return;
        }
        tokio::time::sleep(HOUR).await;
    }
}

async fn killed_at_every_call(way: Way, first: usize, away: Duration) {
    for k in points(first) {
        let host = way.host();
        let finished = !killed_when(&host, move |call| call.index >= k).await;
        tokio::time::sleep(away).await;
        host.once(NEW).await;
        assert_kept_promise(&host, way, &format!("killed at call {k}, away for {away:?}"));
        if finished {
            assert!(k > 50, "{k}");
            break;
        }
    }
}

/// The next process comes at once, shortly before a stop timeout ends, or hours later.
async fn survives_a_kill_at_every_call(way: Way) {
    for (first, away) in [0, 3500, 10_800].into_iter().enumerate() {
        killed_at_every_call(way, first, Duration::from_secs(away)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn survives_a_kill_at_every_call_start_first() {
    survives_a_kill_at_every_call(StartFirst).await;
}

#[tokio::test(start_paused = true)]
async fn survives_a_kill_at_every_call_stop_first() {
    survives_a_kill_at_every_call(StopFirst).await;
}

#[tokio::test(start_paused = true)]
async fn survives_a_kill_at_every_call_with_rm() {
    survives_a_kill_at_every_call(Fleeting).await;
}

#[tokio::test(start_paused = true)]
async fn survives_a_kill_at_every_call_with_rm_and_stop_first() {
    survives_a_kill_at_every_call(FleetingStopFirst).await;
}

#[tokio::test(start_paused = true)]
async fn lets_a_delegate_without_restart_policy_finish_its_tasks() {
    for k in points(0) {
        let host = Host::new();
        host.run_with("dd", never_restarted);
        // It needs longer than the rest of the timeout.
        host.twin
            .set_behaviour(OLD, &Behaviour::drains(Duration::from_secs(3000)));
        let finished = !killed_when(&host, move |call| call.index >= k).await;
        tokio::time::sleep(HOUR / 2).await;
        host.once(NEW).await;
        let events = host.twin.events();
        let cut = events
            .iter()
            .find(|event| matches!(event.what, Happened::Exited { code } if code != 0));
        assert_eq!(cut, None, "killed at call {k}");
        assert_eq!(host.names(), ["dd"]);
        if finished {
            break;
        }
    }
}

async fn fault_at_every_call(way: Way, first: usize, fault: Fault) {
    for k in points(first) {
        let host = way.host();
        let chosen = fault.clone();
        host.fault_where(chosen, move |call| call.index == k);
        hourly(&host).await;
        assert_kept_promise(&host, way, &format!("{fault:?} at call {k}"));
        if host.twin.calls().len() <= k {
            assert!(k > 50, "{k}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn survives_a_lost_request_at_every_call() {
    for way in Way::ALL {
        fault_at_every_call(way, 0, Fault::ErrBefore).await;
    }
}

#[tokio::test(start_paused = true)]
async fn survives_a_lost_answer_at_every_call() {
    for way in Way::ALL {
        fault_at_every_call(way, 1, Fault::ErrAfter).await;
    }
}

#[tokio::test(start_paused = true)]
async fn survives_a_late_answer_at_every_call() {
    for way in Way::ALL {
        fault_at_every_call(way, 2, Fault::HangAfter).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_upgraders_at_once_converge() {
    for way in Way::ALL {
        for offset in (0..40)
            .step_by(stride(3))
            .chain([100, 1000, 2005, 2010, 2015, 5000, 12_000, 17_000])
        {
            let host = way.host();
            let second = async {
                tokio::time::sleep(Duration::from_millis(offset)).await;
                host.once(NEW).await
            };
            tokio::join!(host.once(NEW), second);
            assert_kept_promise(&host, way, &format!("the second one {offset} ms later"));
        }
    }
}

/// The daemon last heard that the old image is current; a manual run knows better. The daemon may observe at any moment.
#[tokio::test(start_paused = true)]
async fn a_manual_run_succeeds_alongside_a_daemon_with_stale_data() {
    for way in [StartFirst, StopFirst] {
        for period in [300, 700, 1000, 2100, 5000, 9000] {
            let host = way.host();
            let mut daemon = host.upgrader(OLD);
            host.scheduled_run(&mut daemon).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            tokio::select! {
                _ = host.once(NEW) => {}
                () = async {
                    loop {
                        let _ = daemon.reconcile().await;
                        tokio::time::sleep(Duration::from_millis(period)).await;
                    }
                } => {}
            }
            assert_kept_promise(&host, way, &format!("the daemon looks every {period} ms"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn survives_an_engine_restart_at_any_moment() {
    for way in [StartFirst, StopFirst] {
        for second in (0..40).chain([50, 70, 80, 90]) {
            let host = way.host();
            let restart = async {
                tokio::time::sleep(Duration::from_secs(second)).await;
                host.twin.restart_engine(Duration::from_secs(3));
            };
            tokio::join!(hourly(&host), restart);
            tokio::time::sleep(Duration::from_secs(5)).await;
            host.assert_settled_on("dd", NEW, &format!("the engine restarts after {second} s"));
        }
    }
}

/// Below API 1.44, a second network is connected after the create call, and the process may be killed between the two.
#[tokio::test(start_paused = true)]
async fn keeps_all_networks_whenever_the_process_is_killed() {
    for way in [StartFirst, FleetingStopFirst] {
        for k in points(1) {
            let host = Host::on(Twin::new(TwinSettings {
                api: ApiVersion::new(1, 41),
                ..TwinSettings::default()
            }));
            host.twin.add_network("corp");
            let id = way.run_on(&host);
            let endpoint = json!({ "Aliases": ["the-delegate"] });
            host.twin.connect("corp", &id, &endpoint).await.unwrap();
            let finished = !killed_when(&host, move |call| call.index >= k).await;
            host.once(NEW).await;
            let context = format!("{way:?}, killed at call {k}");
            assert_kept_promise(&host, way, &context);
            let document = host.twin.document("dd").unwrap();
            let corp = &document["NetworkSettings"]["Networks"]["corp"];
            assert_eq!(corp["Aliases"][0], "the-delegate", "{context}");
            if finished {
                break;
            }
        }
    }
}

/// The daemon's answer is an hour old; an operator's run has just got a newer one.
#[tokio::test(start_paused = true)]
async fn a_daemon_does_not_undo_a_later_run_of_another_process() {
    for change in [|_: &mut serde_json::Value| (), host_network] {
        let host = Host::new();
        host.publish(NEWER, good());
        host.run_with("dd", change);
        let mut daemon = host.upgrader(NEW);
        host.scheduled_run(&mut daemon).await;
        host.once(NEWER).await;
        host.finish(&mut daemon).await;
        host.assert_settled_on("dd", NEWER, "");
    }
}
