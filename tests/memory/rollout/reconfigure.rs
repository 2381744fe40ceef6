//! `reconfigure`: other settings by the proof of an upgrade, and the way back to the former ones.

use std::collections::BTreeSet;
use std::time::Duration;

use delegate_upgrader::container::{Request, RunState, label};
use delegate_upgrader::document::{MemoryLimit, NewSettings};
use delegate_upgrader::health::HealthStatus;
use delegate_upgrader::image::Pull;
use delegate_upgrader::reconcile::operator::OperatorError;
use delegate_upgrader::reconcile::reconfigure::Whom;
use delegate_upgrader::status::report::Report;
use serde_json::{Value, json};

use super::faults::{Way, killed_during, points};
use super::host::{GROUP, HOUR, Host, NEW, OLD, Upgrader, bad_images, row};
use kit::twin::{Behaviour, Call, Fault, Operation, OperatorAction};

const OLDER: &str = "harness/delegate:26.01.1";
const SECRET: &str = "hunter2-hunter2";

/// A token, a variable less, a label and another limit.
fn new_settings() -> NewSettings {
    let mut new = variable("DELEGATE_TOKEN", SECRET);
    new.env.insert("NEXT_GEN".to_owned(), None);
    new.labels.insert("team".to_owned(), Some("blue".to_owned()));
    let memory = 3 << 30;
    new.memory = Some(MemoryLimit { memory, swap: None });
    new
}

async fn reconfigured(host: &Host, whom: &Whom) -> Result<Report, OperatorError> {
    let mut upgrader = host.upgrader(OLD);
    upgrader
        .reconfigure(whom, &new_settings(), Request::default())
        .await?;
    Ok(host.finish(&mut upgrader).await)
}

/// A change of the settings of `dd` that has just been asked for.
async fn begun(host: &Host, published: &str, new: &NewSettings) -> Upgrader {
    let (whom, mut upgrader) = (dd(), host.upgrader(published));
    let asked = upgrader.reconfigure(&whom, new, Request::default());
    asked.await.unwrap();
    upgrader
}

async fn taken_back(host: &Host) -> Result<Report, OperatorError> {
    let mut upgrader = host.upgrader(OLD);
    upgrader.rollback("dd", None, Request::default(), []).await?;
    Ok(host.finish(&mut upgrader).await)
}

fn dd() -> Whom {
    Whom::Container("dd".to_owned())
}

fn all() -> Whom {
    Whom::Workload(GROUP.to_owned())
}

fn variable(name: &str, value: &str) -> NewSettings {
    let mut new = NewSettings::default();
    new.env.insert(name.to_owned(), Some(value.to_owned()));
    new
}

/// The settings that `new_settings` names, and everything else that an owner gives, without our labels.
fn settings(host: &Host) -> (BTreeSet<String>, Value, Value) {
    let document = host.twin.document("dd").unwrap();
    let env = document["Config"]["Env"].as_array().unwrap().iter();
    let env = env.map(|entry| entry.as_str().unwrap().to_owned()).collect();
    let mut labels = document["Config"]["Labels"].clone();
    let labels = labels.as_object_mut().unwrap();
    labels.retain(|name, _| !label::OURS.contains(&name.as_str()));
    (env, json!(labels), document["HostConfig"].clone())
}

/// The name of the only container beside `dd`, which was never started and does not come back.
fn former(host: &Host) -> Option<String> {
    let all = host.containers();
    let (served, rest) = all.split_first().unwrap();
    assert_eq!(
        (served.0.as_str(), &served.1),
        ("dd", &RunState::Running),
        "{all:?}"
    );
    assert!(rest.len() < 2, "{all:?}");
    let (name, state, _) = rest.first()?;
    assert!(
        name.starts_with("dd.former") && *state == RunState::Created,
        "{all:?}"
    );
    assert_eq!(host.restart_policy(name), "no");
    Some(name.clone())
}

#[tokio::test(start_paused = true)]
async fn changes_what_was_named_and_nothing_else() {
    for way in [Way::StartFirst, Way::StopFirst] {
        let host = way.host();
        let (env, labels, mut host_config) = settings(&host);
        let report = reconfigured(&host, &dd()).await.unwrap();
        assert_eq!(row(&report, "dd").reason.as_str(), "reconfigured", "{report:?}");
        assert!(row(&report, "dd").reason.runs_the_target() && !report.has_failures());
        let mut expected = env.clone();
        expected.remove("NEXT_GEN=true");
        expected.insert(format!("DELEGATE_TOKEN={SECRET}"));
        host_config["Memory"] = json!(3_u64 << 30);
        let (found, new_labels, found_config) = settings(&host);
        assert_eq!((&labels, new_labels), (&json!({}), json!({ "team": "blue" })));
        assert_eq!(
            (found, found_config["Memory"].clone()),
            (expected, host_config["Memory"].clone())
        );
        assert_eq!(host.find("dd").image, OLD);
        let kept = host.twin.document(&former(&host).unwrap()).unwrap();
        let env: Vec<_> = kept["Config"]["Env"].as_array().unwrap().iter().collect();
        let identity = ["ACCOUNT_ID=account", "DELEGATE_NAME=docker-delegate"];
        for entry in &env {
            let entry = entry.as_str().unwrap();
            let is_known =
                identity.contains(&entry) || entry == "NEXT_GEN=true" || entry.starts_with("PATH=");
            assert!(is_known, "{env:?}");
        }
        assert_eq!(kept["HostConfig"]["Memory"], json!(2_u64 << 30));
        if way == Way::StartFirst {
            assert_eq!(host.fewest_working(), 1);
        }
        let writes = host.twin.writes();
        let shown = format!("{report:?} {writes:?}");
        assert!(!shown.contains(SECRET), "{shown}");
        // A daemon leaves both as they are.
        host.once(OLD).await;
        assert_eq!(host.twin.writes().len(), writes.len());
        // The same command again has nothing to do.
        let again = reconfigured(&host, &dd()).await.unwrap_err();
        assert_eq!(again, OperatorError::NothingToChange);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_brings_the_former_settings_back() {
    let host = Way::StartFirst.host();
    let before = settings(&host);
    reconfigured(&host, &dd()).await.unwrap();
    let changed = settings(&host);
    for expected in [&before, &changed, &before] {
        let report = taken_back(&host).await.unwrap();
        assert_eq!(row(&report, "dd").reason.as_str(), "reconfigured", "{report:?}");
        assert_eq!(&settings(&host), expected);
        assert!(former(&host).is_some());
    }
    // A release is one of an image, and it runs that image.
    let mut upgrader = host.upgrader(OLD);
    let same = upgrader.rollback("dd", Some("3"), Request::default(), []).await;
    let (name, release) = ("dd".to_owned(), 3);
    assert_eq!(same, Err(OperatorError::AlreadyThere { name, release }));
    let name = former(&host).unwrap();
    host.by_hand(OperatorAction::Remove, &name);
    let gone = taken_back(&host).await.unwrap_err().to_string();
    assert!(gone.contains("are gone with dd.former; --to IMAGE-TAG"), "{gone}");
}

/// Someone removes the delegate while settings prove themselves that do not work.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_is_gone_comes_back_with_its_former_settings() {
    for bad in bad_images().into_iter().take(3) {
        let host = Way::StartFirst.host();
        let before = settings(&host);
        host.twin.set_behaviour(OLD, &bad);
        let mut upgrader = begun(&host, OLD, &new_settings()).await;
        let removed = async {
            while !host.names().contains(&"dd.candidate".to_owned()) || host.names().len() < 3 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            host.twin.set_behaviour(OLD, &Behaviour::default());
            host.by_hand(OperatorAction::Remove, "dd");
        };
        tokio::join!(host.finish(&mut upgrader), removed);
        host.once(OLD).await;
        assert_eq!(settings(&host), before, "{bad:?}");
    }
}

/// As `docker compose down` does, which does not know the former settings.
#[tokio::test(start_paused = true)]
async fn former_settings_go_with_the_delegate() {
    let host = Way::StartFirst.host();
    reconfigured(&host, &dd()).await.unwrap();
    host.by_hand(OperatorAction::Remove, "dd");
    let report = host.once(OLD).await;
    assert!(!report.has_failures(), "{report:?}");
    assert!(host.names().is_empty(), "{:?}", host.names());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_keeps_the_new_settings_and_ends_the_way_back_to_the_former_ones() {
    let host = Way::StartFirst.host();
    reconfigured(&host, &dd()).await.unwrap();
    let changed = settings(&host);
    host.once(NEW).await;
    assert_eq!((host.find("dd").image.as_str(), former(&host)), (NEW, None));
    assert_eq!(settings(&host), changed);
    // Now the rollback is one of the image.
    host.finish(&mut host.rollback(NEW, "dd").await).await;
    assert_eq!((host.find("dd").image.as_str(), former(&host)), (OLD, None));
    assert_eq!(settings(&host), changed);
    // A change of settings does not end the rollback.
    let mut upgrader = begun(&host, NEW, &variable("JAVA_OPTS", "-Xmx1g")).await;
    host.finish(&mut upgrader).await;
    assert_eq!(host.reason(NEW).await, "rolled_back");
    assert_eq!(host.find("dd").image, OLD);
}

#[tokio::test(start_paused = true)]
async fn settings_that_fail_on_the_first_replica_reach_no_other_and_say_nothing_of_the_image() {
    for bad in bad_images() {
        let mut host = Host::new();
        host.settings.target.pull = Pull::Never;
        for name in ["aa", "bb", "cc"] {
            host.run(name);
        }
        let ids = ["aa", "bb", "cc"].map(|name| host.find(name).id);
        host.twin.set_behaviour(OLD, &bad);
        let report = reconfigured(&host, &all()).await.unwrap();
        assert_eq!(row(&report, "aa").reason.as_str(), "rejected", "{report:?}");
        for name in ["bb", "cc"] {
            assert_eq!(row(&report, name).reason.as_str(), "halted", "{report:?}");
        }
        assert!(row(&report, "aa").rejected_images.is_empty(), "{report:?}");
        assert_eq!(ids, ["aa", "bb", "cc"].map(|name| host.find(name).id));
        // One candidate, and what keeps the former settings.
        assert_eq!((host.count(Operation::Create), host.fewest_working()), (2, 3));
        // Another delegate may get the image that it has.
        host.twin.set_behaviour(OLD, &Behaviour::default());
        host.twin.add_image(OLDER, host.twin.image(Behaviour::default()));
        host.run_with("dd", |body| body["Image"] = json!(OLDER));
        let report = host.once(OLD).await;
        assert_eq!(host.find("dd").image, OLD, "{report:?}");
        let report = reconfigured(&host, &all()).await.unwrap();
        assert!(!report.has_failures(), "{report:?}");
        let names = host.names();
        assert!(names.iter().all(|name| !name.contains("failed")), "{names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_process_completes_it_after_a_kill_at_any_change() {
    for way in [Way::StartFirst, Way::StopFirst] {
        for k in points(0) {
            let host = way.host();
            let before = settings(&host);
            let mut writes = 0;
            let is_too_many = move |call: &Call| {
                writes += usize::from(call.is_write());
                writes > k
            };
            let killed = killed_during(&host, is_too_many, reconfigured(&host, &dd())).await;
            // Its daemon publishes another image meanwhile, and completes this first.
            let mut daemon = host.upgrader(NEW);
            host.scheduled_run(&mut daemon).await;
            host.scheduled_run(&mut daemon).await;
            let context = format!("{way:?}, killed after {k} changes");
            assert_eq!(host.find("dd").image, NEW, "{context}");
            assert_eq!(former(&host), None, "{context}");
            let is_changed = settings(&host) != before;
            assert!(is_changed || killed, "{context}");
            // Nothing of it is there before the first change.
            assert_eq!(is_changed, k > 0, "{context}");
            if way == Way::StartFirst {
                assert_eq!(host.fewest_working(), 1, "{context}");
            }
            if !killed {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_the_manager_rejects_an_hour_after_its_rotation_is_missed_by_nobody() {
    for is_rotated in [true, false] {
        let host = Host::new();
        let old = "DELEGATE_TOKEN=0ld0ld0ld";
        for name in ["dd", "dd-2"] {
            host.run_with(name, |body| body["Env"].as_array_mut().unwrap().push(json!(old)));
        }
        if is_rotated {
            let report = reconfigured(&host, &all()).await.unwrap();
            assert!(!report.has_failures(), "{report:?}");
        }
        let rotated = host.twin.elapsed();
        host.twin.reject(old, rotated + HOUR);
        for (after, expected) in [(HOUR / 2, true), (HOUR * 2, is_rotated)] {
            tokio::time::sleep(rotated + after - host.twin.elapsed()).await;
            let report = host.once(OLD).await;
            for delegate in &report.delegates {
                let is_healthy = delegate.health == HealthStatus::Healthy;
                assert_eq!(is_healthy, expected, "{is_rotated}, after {after:?}: {report:?}");
            }
        }
        assert_eq!(host.fewest_working(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn refuses_what_it_cannot_keep_or_verify() {
    let host = Host::new();
    let others = Whom::Workload("others".to_owned());
    let nobody = reconfigured(&host, &others).await.unwrap_err();
    assert!(matches!(nobody, OperatorError::Unknown(_)), "{nobody}");
    let host = Host::new();
    host.run("dd");
    let mut other = new_settings();
    other.env.extend(variable("DELEGATE_NAME", "other").env);
    let mut upgrader = host.upgrader(OLD);
    let mut refused = async |whom: Whom| {
        let asked = upgrader.reconfigure(&whom, &other, Request::default());
        asked.await.unwrap_err().to_string()
    };
    let told = refused(dd()).await;
    assert!(told.contains("it would be another delegate"), "{told}");
    let told = refused(others).await;
    assert!(told.ends_with("managed: docker-delegate"), "{told}");
    // As if the image set it.
    host.twin.garble_creates(|config| {
        let env = config["Env"].as_array_mut().unwrap();
        env.push(json!("NEXT_GEN=true"));
    });
    let report = reconfigured(&host, &dd()).await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "create_refused", "{report:?}");
    assert!(row(&report, "dd").message.contains("env.NEXT_GEN"), "{report:?}");
    tokio::time::sleep(HOUR).await;
    host.once(OLD).await;
    assert_eq!((host.names(), host.fewest_working()), (vec!["dd".to_owned()], 1));
}

/// Its failed container remains.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_its_owner_has_removed_keeps_no_other_from_new_settings() {
    let host = Host::new();
    host.run("aa");
    host.run_with("bb", |body| {
        body["HostConfig"]["Memory"] = json!(2_u64 << 30);
        body["HostConfig"]["MemorySwap"] = json!(2_u64 << 30);
    });
    host.publish(NEW, Behaviour::never_healthy());
    host.once(NEW).await;
    host.by_hand(OperatorAction::Remove, "aa");
    assert_eq!(host.names(), ["aa.failed-1", "bb"]);
    let report = reconfigured(&host, &all()).await.unwrap();
    assert_eq!(row(&report, "bb").reason.as_str(), "reconfigured", "{report:?}");
    let limits = &host.twin.document("bb").unwrap()["HostConfig"];
    let limits = ["Memory", "MemorySwap"].map(|limit| limits[limit].as_u64().unwrap());
    assert_eq!(limits, [3 << 30; 2], "it has no swap, as before");
}

#[tokio::test(start_paused = true)]
async fn a_command_does_not_take_the_change_of_another_one_for_its_own() {
    let host = Way::StartFirst.host();
    let mut first = begun(&host, OLD, &new_settings()).await;
    let mut second = begun(&host, OLD, &variable("OTHER", "1")).await;
    let [first, second] = [host.finish(&mut first).await, host.finish(&mut second).await];
    assert_eq!(row(&first, "dd").reason.as_str(), "reconfigured", "{first:?}");
    assert_eq!(row(&second, "dd").reason.as_str(), "create_refused", "{second:?}");
}

/// The label holds for the next replacement.
#[tokio::test(start_paused = true)]
async fn an_opt_out_does_not_end_the_replacement_that_brings_it() {
    for way in [Way::StartFirst, Way::StopFirst] {
        let host = way.host();
        let mut opt_out = NewSettings::default();
        opt_out
            .labels
            .insert(label::ENABLE.to_owned(), Some("false".to_owned()));
        host.finish(&mut begun(&host, OLD, &opt_out).await).await;
        assert_eq!(host.names(), ["dd", "dd.former"]);
        assert_eq!(host.reason(NEW).await, "opted_out");
        assert_eq!(host.find("dd").image, OLD);
    }
}

/// The host has memory for another container with the old limit, but not with the new one.
#[tokio::test(start_paused = true)]
async fn a_higher_limit_needs_room_beside_the_old_container() {
    let mut host = Way::StartFirst.host();
    host.free_memory = Some(5 << 29);
    let report = reconfigured(&host, &dd()).await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "reconfigured", "{report:?}");
    assert_eq!(host.fewest_working(), 0, "stop-first");
}

/// Docker removes the old container when it has ended, so only the kept settings are left.
#[tokio::test(start_paused = true)]
async fn settings_that_fail_leave_those_of_an_rm_delegate_although_keeping_them_failed_once() {
    let host = Host::new();
    host.run_with("dd", |body| {
        body["HostConfig"] = json!({ "AutoRemove": true, "NetworkMode": "host" });
    });
    let (before, ..) = settings(&host);
    let mut is_first = true;
    host.fault_where(Fault::ErrBefore, move |call| {
        let is_it = call.operation == Operation::Create && call.subject == "dd.former";
        is_it && std::mem::take(&mut is_first)
    });
    host.twin.set_behaviour(OLD, &Behaviour::never_healthy());
    let report = reconfigured(&host, &dd()).await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(settings(&host).0, before);
}
