//! Whatever fails, whenever it fails: a whole rollout, with something going wrong at every single call.

use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::container::ApiVersion;
use delegate_upgrader::engine::Engine;
use serde_json::json;
use tokio::sync::Notify;

use super::host::{HOUR, Host, NEW, NEWER, OLD, auto_remove, good, host_network};
use kit::twin::{Call, Fault, Happened, Twin, TwinSettings};

/// Which way a delegate is replaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    StartFirst,
    StopFirst,
    /// With `--rm`.
    Fleeting,
    FleetingStopFirst,
}

use Way::{Fleeting, FleetingStopFirst, StartFirst, StopFirst};

impl Way {
    pub fn stops_first(self) -> bool {
        matches!(self, StopFirst | FleetingStopFirst)
    }

    pub fn is_fleeting(self) -> bool {
        matches!(self, Fleeting | FleetingStopFirst)
    }

    pub fn host(self) -> Host {
        let host = Host::new();
        host.run_with("dd", |body| {
            if self.stops_first() {
                host_network(body);
            }
            if self.is_fleeting() {
                auto_remove(body);
            }
        });
        host
    }
}

/// A process that does a run is killed at the first such call, which never arrives; `false` where none is made.
pub async fn killed_when(host: &Host, when: impl FnMut(&Call) -> bool + Send + 'static) -> bool {
    let mut upgrader = host.upgrader(NEW);
    killed_during(host, when, host.scheduled_run(&mut upgrader)).await
}

/// The same of a process that does this.
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

/// The runs of a day, one an hour, until the delegate runs the new image and nothing is left over.
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

async fn killed_at_every_call(way: Way, away: Duration) {
    for k in 0.. {
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

#[tokio::test(start_paused = true)]
async fn a_start_first_upgrade_survives_a_kill_at_every_call() {
    killed_at_every_call(StartFirst, Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_first_upgrade_survives_a_kill_at_every_call() {
    killed_at_every_call(StopFirst, Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn an_auto_remove_delegate_survives_a_kill_at_every_call() {
    killed_at_every_call(Fleeting, Duration::ZERO).await;
    killed_at_every_call(Fleeting, HOUR * 3).await;
}

#[tokio::test(start_paused = true)]
async fn an_auto_remove_delegate_that_stops_first_survives_a_kill_at_every_call() {
    killed_at_every_call(FleetingStopFirst, Duration::ZERO).await;
    killed_at_every_call(FleetingStopFirst, HOUR * 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_first_upgrade_survives_a_kill_at_every_call_and_hours_without_an_upgrader() {
    killed_at_every_call(StartFirst, Duration::from_secs(3500)).await;
    killed_at_every_call(StartFirst, HOUR * 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_first_upgrade_survives_a_kill_at_every_call_and_hours_without_an_upgrader() {
    killed_at_every_call(StopFirst, Duration::from_secs(3500)).await;
    killed_at_every_call(StopFirst, HOUR * 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_delegate_without_a_restart_policy_is_not_cut_short_either() {
    for k in 0.. {
        let host = Host::new();
        host.run_with("dd", |body| {
            body["HostConfig"]["RestartPolicy"]["Name"] = "no".into();
        });
        // It needs longer than what would be left of the timeout.
        let image = host
            .twin
            .image(kit::twin::Behaviour::drains(Duration::from_secs(3000)));
        host.twin.add_image(super::host::OLD, image);
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

async fn fault_at_every_call(way: Way, fault: Fault) {
    for k in 0.. {
        let host = way.host();
        let chosen = fault.clone();
        host.twin.set_faults(move |call| {
            if call.index == k {
                chosen.clone()
            } else {
                Fault::None
            }
        });
        hourly(&host).await;
        assert_kept_promise(&host, way, &format!("{fault:?} at call {k}"));
        if host.twin.calls().len() <= k {
            assert!(k > 50, "{k}");
            break;
        }
    }
}

macro_rules! at_every_call {
    ($($name:ident: $way:ident, $fault:ident;)+) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            fault_at_every_call(Way::$way, Fault::$fault).await;
        }
    )+};
}

at_every_call! {
    a_start_first_upgrade_survives_a_lost_request_at_every_call: StartFirst, ErrBefore;
    a_start_first_upgrade_survives_a_lost_answer_at_every_call: StartFirst, ErrAfter;
    a_start_first_upgrade_survives_a_late_answer_at_every_call: StartFirst, HangAfter;
    a_stop_first_upgrade_survives_a_lost_request_at_every_call: StopFirst, ErrBefore;
    a_stop_first_upgrade_survives_a_lost_answer_at_every_call: StopFirst, ErrAfter;
    a_stop_first_upgrade_survives_a_late_answer_at_every_call: StopFirst, HangAfter;
    an_auto_remove_delegate_survives_a_lost_request_at_every_call: Fleeting, ErrBefore;
    an_auto_remove_delegate_survives_a_lost_answer_at_every_call: Fleeting, ErrAfter;
    an_auto_remove_delegate_survives_a_late_answer_at_every_call: Fleeting, HangAfter;
    an_auto_remove_delegate_that_stops_first_survives_a_lost_request_at_every_call: FleetingStopFirst, ErrBefore;
    an_auto_remove_delegate_that_stops_first_survives_a_lost_answer_at_every_call: FleetingStopFirst, ErrAfter;
    an_auto_remove_delegate_that_stops_first_survives_a_late_answer_at_every_call: FleetingStopFirst, HangAfter;
}

#[tokio::test(start_paused = true)]
async fn two_upgraders_at_once_converge() {
    for way in [StartFirst, StopFirst, Fleeting, FleetingStopFirst] {
        for offset in (0..40).chain([100, 1000, 2005, 2010, 2015, 5000, 12_000, 17_000]) {
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

/// The daemon last heard that the old image is current; a manual run knows better. It observes at any moment.
#[tokio::test(start_paused = true)]
async fn a_daemon_that_knows_less_does_not_spoil_a_manual_run() {
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
async fn an_engine_that_restarts_at_every_moment_ends_with_the_delegate_running() {
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

/// Below API 1.44 a second network is connected after the create, and the engine may go between the two.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_comes_back_from_its_standby_has_all_its_networks() {
    let mut restarted_since_stop = 0;
    for k in 0.. {
        let host = Host::on(Twin::new(TwinSettings {
            api: ApiVersion::new(1, 41),
            ..TwinSettings::default()
        }));
        host.twin.add_network("corp");
        let id = host.run_with("dd", auto_remove);
        let endpoint = json!({ "Aliases": ["the-delegate"] });
        host.twin.connect("corp", &id, &endpoint).await.unwrap();
        let finished = !killed_when(&host, move |call| call.index >= k).await;
        let has_standby = host.names().contains(&"dd.standby".to_owned());
        host.twin.restart_engine(Duration::from_secs(3));
        tokio::time::sleep(Duration::from_secs(5)).await;
        if has_standby {
            restarted_since_stop += 1;
            host.once(NEW).await;
            let document = host.twin.document("dd").unwrap();
            let corp = &document["NetworkSettings"]["Networks"]["corp"];
            assert_eq!(corp["Aliases"][0], "the-delegate", "the engine went at call {k}");
        }
        if finished {
            break;
        }
    }
    assert!(restarted_since_stop > 10, "{restarted_since_stop}");
}

/// What the daemon asked an hour ago is older than what an operator's run has just learned.
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
