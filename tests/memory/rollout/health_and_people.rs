//! Delegates that are restarted for their health, and which somebody pauses or starts.

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::upgrade_run::Mode;

use super::health_restarts::{MINUTE, ailing, host, live, restarts};
use super::host::{DRAIN, HOUR, NEW, OLD, row};
use kit::twin::{Behaviour, OperatorAction, Wellness};

/// What was found before somebody paused it, and that it was paused, are no failed checks of one that runs again.
#[tokio::test(start_paused = true)]
async fn one_that_was_paused_is_restarted_only_for_what_its_checks_find_afterwards() {
    for recovers in [true, false] {
        let host = host(&if recovers {
            Behaviour::drains(DRAIN)
        } else {
            ailing()
        });
        let paused = host.run("dd");
        let mut upgrader = host.upgrader(OLD);
        live(&host, &mut upgrader, 2 * MINUTE).await;
        host.twin.set_manager_reachable(false);
        live(&host, &mut upgrader, 8 * MINUTE).await;
        let by_hand = |act: fn(String) -> OperatorAction| {
            host.twin.by_hand(act(paused.as_str().to_owned())).unwrap();
        };
        by_hand(OperatorAction::Pause);
        live(&host, &mut upgrader, 5 * MINUTE).await;
        host.twin.set_manager_reachable(true);
        live(&host, &mut upgrader, 2 * MINUTE).await;
        by_hand(OperatorAction::Unpause);
        let unpaused = host.twin.elapsed();
        let report = live(&host, &mut upgrader, 4 * MINUTE).await;
        let restarts = restarts(&host, "dd");
        assert_eq!(restarts.is_empty(), recovers, "{:?}", row(&report, "dd"));
        // Three checks, a minute apart.
        assert!(
            restarts.iter().all(|at| *at >= unpaused + 2 * MINUTE),
            "{restarts:?}"
        );
    }
}

/// Somebody started it beside a failed one that finishes its tasks; a restart would put the two beside each other again.
#[tokio::test(start_paused = true)]
async fn stop_first_it_is_not_restarted_beside_a_failed_one() {
    let mut host = host(&Behaviour {
        health: Wellness::For(10 * MINUTE),
        ..Behaviour::drains(DRAIN)
    });
    host.strategy = Strategy::StopFirst;
    host.publish(
        NEW,
        Behaviour {
            health: Wellness::Never,
            ..Behaviour::drains(HOUR / 2)
        },
    );
    let old = host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    live(&host, &mut upgrader, 5 * MINUTE).await;
    assert_eq!(host.find("dd.failed-1").state, RunState::Running);
    let start = OperatorAction::Start(old.as_str().to_owned());
    host.twin.by_hand(start).unwrap();
    live(&host, &mut upgrader, 20 * MINUTE).await;
    assert_eq!(host.find("dd.failed-1").state, RunState::Running);
    assert_eq!(host.find("dd").id, old);
    assert!(restarts(&host, "dd").is_empty());
    live(&host, &mut upgrader, HOUR / 2).await;
    assert_eq!(host.find("dd.failed-1").state, RunState::Exited);
    assert!(!restarts(&host, "dd").is_empty());
}
