//! Settings that somebody changes while a delegate is being replaced: what they set last is kept.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, RunState, label};
use delegate_upgrader::engine::Engine;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::{Value, json};

use crate::rollout::host::{DRAIN, Host, NEW, NEWER, OLD, Upgrader, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, Fault, Operation, OperatorAction};

fn set_memory(host: &Host, name: &str, bytes: u64) {
    host.twin
        .update(name, |host_config| host_config["Memory"] = json!(bytes));
}

fn memory(host: &Host) -> u64 {
    host.twin.document("dd").unwrap()["HostConfig"]["Memory"]
        .as_u64()
        .unwrap()
}

async fn set_policy(host: &Host, id: &ContainerId, policy: &str) {
    let policy = json!({ "Name": policy, "MaximumRetryCount": 0 });
    host.twin.set_restart_policy(id, &policy).await.unwrap();
}

/// Half of the candidate's proof.
async fn while_it_proves_itself(host: &Host) -> Upgrader {
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, Duration::from_secs(8)).await.is_none());
    assert_eq!(host.find("dd.candidate").state, RunState::Running);
    upgrader
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_while_a_candidate_proves_itself_is_kept() {
    for policy in ["always", "no", "on-failure"] {
        let host = Host::new();
        host.twin.add_network("backend");
        let id = host.run("dd");
        let mut upgrader = while_it_proves_itself(&host).await;
        set_memory(&host, "dd", 3_000_000_000);
        set_policy(&host, &id, policy).await;
        host.twin.connect("backend", &id, &json!({})).await.unwrap();
        let report = host.finish(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled("dd", NEW, policy, "");
        assert_eq!(memory(&host), 3_000_000_000);
        let networks = host.twin.document("dd").unwrap()["NetworkSettings"]["Networks"].clone();
        assert!(networks.get("backend").is_some(), "{networks}");
    }
}

/// The candidate that is created anew is none that was tried before.
#[tokio::test(start_paused = true)]
async fn what_is_changed_on_the_candidate_itself_does_not_last() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = while_it_proves_itself(&host).await;
    set_memory(&host, "dd.candidate", 1_000_000_000);
    let report = host.finish(&mut upgrader).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    assert_eq!(memory(&host), 2_147_483_648);
}

/// Somebody's script changes it again and again: then it is left alone until the next run.
#[tokio::test(start_paused = true)]
async fn one_that_is_changed_each_time_is_not_tried_for_ever() {
    let host = Host::new();
    let id = host.run("dd");
    let mut bytes = 2_000_000_000;
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let report = loop {
        bytes += 1_000_000;
        set_memory(&host, "dd", bytes);
        if let Some(report) = host.go_on(&mut upgrader, Duration::from_secs(8)).await {
            break report;
        }
    };
    let dd = row(&report, "dd");
    assert_eq!(dd.reason.as_str(), "configuration_mismatch", "{report:?}");
    assert!(dd.message.contains("/HostConfig/Memory"), "{}", dd.message);
    assert_eq!((host.find("dd").id, host.names()), (id, vec!["dd".to_owned()]));
    let creates = host
        .twin
        .writes()
        .into_iter()
        .filter(|call| call.operation == Operation::Create);
    assert_eq!(creates.count(), 3);
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    assert_eq!(memory(&host), bytes);
}

/// It takes what it was set to along when its drain ends.
#[tokio::test(start_paused = true)]
async fn what_is_changed_while_one_with_auto_remove_drains_is_kept() {
    for is_new_process in [false, true] {
        let host = Host::new();
        let id = host.run_with("dd", |body| {
            host_network(body);
            auto_remove(body);
        });
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
        if is_new_process {
            upgrader = host.upgrader(NEW);
            upgrader.start_run(Mode::Upgrade);
        }
        set_memory(&host, id.as_str(), 3_000_000_000);
        let report = host.finish(&mut upgrader).await;
        assert_eq!(
            (row(&report, "dd").reason.as_str(), host.find("dd").image.as_str()),
            ("settings_changed", OLD),
            "{report:?}"
        );
        assert_eq!(
            (host.names(), memory(&host)),
            (vec!["dd".to_owned()], 3_000_000_000)
        );
        let report = host.scheduled_run(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_fleeting_on("dd", NEW, "");
        assert_eq!(memory(&host), 3_000_000_000);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_changed_while_the_old_one_drains_is_kept() {
    for bytes in [2_147_483_648, 3_000_000_000] {
        let host = Host::new();
        let id = host.run_with("dd", host_network);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
        set_memory(&host, id.as_str(), bytes);
        set_policy(&host, &id, "always").await;
        let report = host.finish(&mut upgrader).await;
        assert_eq!(
            row(&report, "dd").reason.as_str(),
            "settings_changed",
            "{report:?}"
        );
        assert_eq!((host.find("dd").id, host.find("dd").image.as_str()), (id, OLD));
        assert_eq!(
            (host.names(), host.restart_policy("dd")),
            (vec!["dd".to_owned()], "always".to_owned())
        );
        let report = host.scheduled_run(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled("dd", NEW, "always", "");
        assert_eq!(memory(&host), bytes);
    }
}

/// One upgrader took off the policy that somebody gave the old one, and another one brought it back.
#[tokio::test(start_paused = true)]
async fn a_policy_that_somebody_takes_off_does_not_come_back_with_an_earlier_one() {
    let host = Host::new();
    let id = host.run_with("dd", |body| {
        host_network(body);
        body["HostConfig"]["RestartPolicy"]["Name"] = json!("no");
    });
    let mut first = host.upgrader(NEW);
    first.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut first, DRAIN / 4).await.is_none());
    set_policy(&host, &id, "always").await;
    assert!(host.go_on(&mut first, DRAIN / 4).await.is_none());
    assert_eq!(host.restart_policy(id.as_str()), "no");
    set_policy(&host, &host.find("dd.candidate").id, "unless-stopped").await;
    let mut second = host.upgrader(NEW);
    second.start_run(Mode::Upgrade);
    host.finish(&mut second).await;
    host.go_on(&mut first, DRAIN).await;
    assert_eq!(host.find("dd").id, id);
    set_policy(&host, &id, "no").await;
    host.scheduled_run(&mut first).await;
    assert_eq!(
        (host.find("dd").image.as_str(), host.restart_policy("dd").as_str()),
        (NEW, "no")
    );
}

/// Stop-first: the policy of one that runs goes after its name, so before that nobody but its owner took it off.
#[tokio::test(start_paused = true)]
async fn a_policy_that_somebody_takes_off_before_the_old_one_gives_up_its_name_stays_off() {
    for is_new_process in [false, true] {
        let mut host = Host::new();
        host.publish(NEWER, good());
        host.tasks = |twin, _| Some(u64::from(twin.elapsed() < 10 * DRAIN));
        host.run_with("dd", host_network);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        // The candidate was created with the policy of before, and the old one finishes its task.
        assert!(host.go_on(&mut upgrader, DRAIN).await.is_none());
        assert_eq!(host.find("dd.candidate").state, RunState::Created);
        let hand = OperatorAction::SetRestartPolicy("dd".to_owned(), "no".to_owned());
        host.twin.by_hand(hand).unwrap();
        if is_new_process {
            upgrader = host.upgrader(NEW);
            upgrader.start_run(Mode::Upgrade);
        }
        // What was made for the policy of before is given up, and the next run makes it anew.
        let report = host.finish(&mut upgrader).await;
        let reason = row(&report, "dd").reason.as_str();
        assert_eq!(reason, "configuration_mismatch", "{report:?}");
        host.assert_settled("dd", OLD, "no", "");
        let report = host.scheduled_run(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled("dd", NEW, "no", "");
        let report = host.once(NEWER).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled("dd", NEWER, "no", "the policy of every later one, too");
    }
}

/// A copy of one with `--rm` serves where that one could not be made anew. No engine creates a container with both.
#[tokio::test(start_paused = true)]
async fn a_copy_of_one_with_auto_remove_that_got_a_policy_is_replaced_with_that_policy() {
    for change in [host_network as fn(&mut Value), |_| {}] {
        let host = Host::new();
        let id = host.run_with("dd", |body| {
            change(body);
            body["Labels"][label::AUTO_REMOVE] = json!("true");
            body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no", "MaximumRetryCount": 0 });
        });
        set_policy(&host, &id, "always").await;
        let report = host.once(NEW).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled("dd", NEW, "always", "");
        assert!(!host.auto_remove("dd"));
    }
}

/// Between two lives its policy goes before its name, and only the process that took it would know what somebody set.
#[tokio::test(start_paused = true)]
async fn what_is_changed_on_one_that_crashes_is_kept() {
    let host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::exits(Duration::ZERO, 1));
    let id = host.run_with("dd", host_network);
    tokio::time::sleep(DRAIN).await;
    host.twin.set_faults(|call| match call.operation {
        Operation::Create => Fault::HangAfter,
        Operation::Rename | Operation::Remove => Fault::ErrBefore,
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let meddle = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(host.find("dd.candidate").state, RunState::Created);
        set_policy(&host, &id, "always").await;
    };
    let (report, ()) = tokio::join!(host.go_on(&mut upgrader, Duration::from_secs(90)), meddle);
    host.twin.clear_faults();
    let report = (report, host.once(NEW).await);
    assert_eq!(host.restart_policy("dd"), "always", "{report:?}");
}
