//! The twin's own rules: those that a shared real engine cannot be asked to show, and the means of a simulation.

use std::time::Duration;

use delegate_upgrader::container::{HealthcheckStatus, RunState};
use delegate_upgrader::engine::{Engine, EngineError};
use kit::twin::{
    Behaviour, CLIENT_TIMEOUT, Exit, Fault, Operation, Twin, TwinSettings, Wellness, delegate_body,
};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

const IMAGE: &str = "harness/delegate:1";

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A host with one image whose containers behave so.
fn host(behaviour: Behaviour) -> Twin {
    let twin = Twin::default();
    let image = twin.image(behaviour);
    twin.add_image(IMAGE, image);
    twin
}

fn with_policy(name: &str, policy: &str) -> serde_json::Value {
    let mut body = delegate_body(name, IMAGE);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": policy, "MaximumRetryCount": 0 });
    body
}

fn state(twin: &Twin, name: &str) -> Option<RunState> {
    twin.glance()
        .into_iter()
        .find(|glance| glance.name == name)
        .map(|glance| glance.state)
}

/// As seen on a real 20.10.
#[tokio::test(start_paused = true)]
async fn an_engine_restart_acts_on_restart_policies() {
    let twin = host(Behaviour::default());
    for policy in ["always", "unless-stopped", "on-failure", "no"] {
        twin.run(&format!("running-{policy}"), &with_policy("d", policy));
        let stopped = twin.run(&format!("stopped-{policy}"), &with_policy("d", policy));
        twin.stop(&stopped, seconds(5)).await.unwrap();
        twin.create(&format!("created-{policy}"), None, &with_policy("d", policy))
            .await
            .unwrap();
    }
    let mut body = with_policy("d", "no");
    body["HostConfig"]["AutoRemove"] = json!(true);
    twin.run("rm-running", &body);
    twin.create("rm-created", None, &body).await.unwrap();

    twin.restart_engine(seconds(3));
    assert!(matches!(
        twin.containers().await,
        Err(EngineError::Unreachable(_))
    ));
    sleep(seconds(4)).await;

    for (name, expected) in [
        ("running-always", Some(RunState::Running)),
        ("running-unless-stopped", Some(RunState::Running)),
        ("running-on-failure", Some(RunState::Exited)),
        ("running-no", Some(RunState::Exited)),
        ("stopped-always", Some(RunState::Running)),
        ("stopped-unless-stopped", Some(RunState::Exited)),
        ("stopped-no", Some(RunState::Exited)),
        ("created-always", Some(RunState::Created)),
        ("rm-running", None),
        ("rm-created", None),
    ] {
        assert_eq!(state(&twin, name), expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn restarts_come_with_growing_pauses() {
    let twin = host(Behaviour::exits(seconds(1), 1));
    let id = twin.run("crash", &with_policy("crash", "always"));
    sleep(seconds(60)).await;
    let restarts = twin.inspect(&id).await.unwrap().restart_count();
    assert!((6..=9).contains(&restarts), "{restarts} restarts in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_rename_during_an_auto_removal_makes_it_stick() {
    let twin = host(Behaviour::default());
    let mut body = with_policy("rm", "no");
    body["HostConfig"]["AutoRemove"] = json!(true);
    let id = twin.run("rm", &body);
    twin.stop(&id, seconds(5)).await.unwrap();
    assert_eq!(state(&twin, "rm"), Some(RunState::Removing));
    twin.rename(&id, "rm.draining-1").await.unwrap();
    sleep(seconds(3600)).await;
    assert_eq!(state(&twin, "rm.draining-1"), Some(RunState::Removing));
}

#[tokio::test(start_paused = true)]
async fn faults_err_before_or_after_the_effect_or_hang() {
    for (fault, created, hangs) in [
        (Fault::ErrBefore, false, false),
        (Fault::ErrAfter, true, false),
        (Fault::Hang, false, true),
        (Fault::HangAfter, true, true),
    ] {
        let twin = host(Behaviour::default());
        let chosen = fault.clone();
        twin.set_faults(move |call| {
            if call.operation == Operation::Create {
                chosen.clone()
            } else {
                Fault::None
            }
        });
        let begun = Instant::now();
        let outcome = twin
            .create("delegate", None, &delegate_body("delegate", IMAGE))
            .await;
        assert!(outcome.is_err(), "{fault:?}");
        assert_eq!(begun.elapsed() >= CLIENT_TIMEOUT, hangs, "{fault:?}");
        assert_eq!(state(&twin, "delegate").is_some(), created, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_distinguishes_reads_from_writes_and_has_their_results() {
    let twin = host(Behaviour::default());
    let id = twin.run_delegate("delegate", IMAGE);
    assert!(twin.calls().is_empty(), "setting the scene is no call");
    sleep(seconds(5)).await;
    twin.inspect(&id).await.unwrap();
    twin.rename(&id, "delegate.draining-1").await.unwrap();
    twin.remove(&id).await.unwrap_err();
    assert_eq!(twin.calls().len(), 3);
    let writes = twin.writes();
    let told: Vec<_> = writes
        .iter()
        .map(|call| (call.operation, call.subject.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (Operation::Rename, "delegate"),
            (Operation::Remove, "delegate.draining-1")
        ]
    );
    assert!(writes[0].at >= seconds(5) && writes[0].at < seconds(6));
    assert_eq!(writes[0].outcome, Some(Ok(())));
    assert!(matches!(writes[1].outcome, Some(Err(EngineError::Conflict(_)))));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_pull_brings_nothing() {
    let twin = Twin::default();
    let reference = "harness/delegate:2".parse().unwrap();
    twin.publish("harness/delegate:2", twin.image(Behaviour::default()));
    timeout(seconds(1), twin.pull(&reference, None, |_| {}))
        .await
        .unwrap_err();
    assert!(twin.images().is_empty());
}

#[tokio::test(start_paused = true)]
async fn health_answers_as_the_image_behaves() {
    let answers = async |behaviour: Behaviour, ages: &[u64]| {
        let twin = host(behaviour);
        let id = twin.run_delegate("delegate", IMAGE);
        let mut seen = Vec::new();
        for age in ages {
            sleep(seconds(*age).saturating_sub(twin.elapsed())).await;
            seen.push(twin.health(&id));
        }
        seen
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(
        answers(Behaviour::slow(seconds(60)), &[1, 59, 61]).await,
        [no, no, yes]
    );
    assert_eq!(answers(Behaviour::never_healthy(), &[1, 3600]).await, [no, no]);
    assert_eq!(
        answers(Behaviour::flaps(seconds(10), seconds(5)), &[1, 11, 16, 26]).await,
        [yes, no, yes, no]
    );
    let falls_ill = Behaviour {
        health: Wellness::For(seconds(30)),
        ..Behaviour::default()
    };
    assert_eq!(answers(falls_ill, &[29, 31]).await, [yes, no]);
    let ends = Behaviour {
        exits: Some(Exit {
            after: seconds(5),
            code: 0,
        }),
        ..Behaviour::default()
    };
    assert_eq!(answers(ends, &[4]).await, [yes]);
}

#[tokio::test(start_paused = true)]
async fn without_a_manager_no_delegate_is_healthy() {
    let twin = host(Behaviour::default());
    let mut body = delegate_body("delegate", IMAGE);
    body["Healthcheck"] = json!({ "Test": ["CMD", "x"], "Interval": 10_000_000_000_u64, "Retries": 3 });
    let id = twin.run("delegate", &body);
    sleep(seconds(15)).await;
    let verdict = async || twin.inspect(&id).await.unwrap().health().unwrap();
    assert_eq!(verdict().await.status, HealthcheckStatus::Healthy);
    twin.set_manager_reachable(false);
    assert_eq!(twin.health(&id), Some(false));
    sleep(seconds(35)).await;
    assert_eq!(verdict().await.status, HealthcheckStatus::Unhealthy);
    twin.set_manager_reachable(true);
    sleep(seconds(10)).await;
    assert_eq!(
        (verdict().await.status, verdict().await.failing_streak),
        (HealthcheckStatus::Healthy, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn two_on_the_host_s_network_collide_on_their_port() {
    let twin = host(Behaviour::default());
    let mut body = with_policy("d", "no");
    body["HostConfig"]["NetworkMode"] = json!("host");
    let one = twin.run("one", &body);
    let two = twin.run("two", &body);
    assert_eq!((twin.health(&one), twin.health(&two)), (Some(true), None));
    sleep(seconds(2)).await;
    assert_eq!(
        (state(&twin, "one"), state(&twin, "two")),
        (Some(RunState::Running), Some(RunState::Exited))
    );
    assert_eq!(twin.probe([127, 0, 0, 1].into(), 3460), Some(true));
}

#[tokio::test(start_paused = true)]
async fn an_address_leads_to_its_container_and_a_fixed_one_to_no_second() {
    let twin = host(Behaviour::default());
    twin.add_network("delegates");
    let mut body = with_policy("d", "no");
    body["HostConfig"]["NetworkMode"] = json!("delegates");
    body["NetworkingConfig"]["EndpointsConfig"]["delegates"] =
        json!({ "IPAMConfig": { "IPv4Address": "172.30.0.9" }, "DriverOpts": { "kept": "yes" } });
    let one = twin.run("one", &body);
    let document = twin.inspect(&one).await.unwrap();
    assert_eq!(
        document.document()["NetworkSettings"]["Networks"]["delegates"]["DriverOpts"]["kept"],
        "yes"
    );
    assert_eq!(twin.probe(document.addresses()[0], 3460), Some(true));
    let two = twin.create("two", None, &body).await.unwrap();
    let error = twin.start(&two).await.unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_survive_and_image_defaults_are_merged() {
    let twin = Twin::default();
    let mut image = twin.image(Behaviour::default());
    image.config = json!({
        "Env": ["PATH=/bin", "JAVA_HOME=/java"],
        "Cmd": ["run"], "Entrypoint": ["/entry"], "User": "1001", "Labels": { "vendor": "harness", "a": "image" },
        "Healthcheck": { "Test": ["CMD", "check"], "Interval": 5_000_000_000_u64, "Retries": 4 },
    });
    twin.add_image(IMAGE, image);
    let mut body = delegate_body("delegate", IMAGE);
    body["Env"] = json!(["JAVA_HOME=/mine"]);
    body["Labels"] = json!({ "a": "own" });
    body["Cmd"] = json!(["mine"]);
    body["Healthcheck"] = json!({ "Interval": 7_000_000_000_u64 });
    body["FromTheFuture"] = json!({ "x": 1 });
    body["HostConfig"]["AlsoNew"] = json!([1, 2]);
    let id = twin.run("delegate", &body);
    let document = twin.inspect(&id).await.unwrap().document().clone();
    let config = &document["Config"];
    assert_eq!(config["Env"], json!(["JAVA_HOME=/mine", "PATH=/bin"]));
    assert_eq!(config["Labels"], json!({ "vendor": "harness", "a": "own" }));
    assert_eq!(
        (&config["Cmd"], &config["Entrypoint"]),
        (&json!(["mine"]), &json!(["/entry"]))
    );
    assert_eq!(config["User"], "1001");
    assert_eq!(
        config["Healthcheck"],
        json!({ "Test": ["CMD", "check"], "Interval": 7_000_000_000_u64, "Retries": 4 })
    );
    assert_eq!(config["FromTheFuture"]["x"], 1);
    assert_eq!(document["HostConfig"]["AlsoNew"], json!([1, 2]));
}

#[tokio::test(start_paused = true)]
async fn older_engines_take_one_endpoint_at_create() {
    for (minor, accepted) in [(41, false), (43, false), (44, true)] {
        let api = delegate_upgrader::container::ApiVersion::new(1, minor);
        let twin = Twin::new(TwinSettings {
            api,
            ..TwinSettings::default()
        });
        let image = twin.image(Behaviour::default());
        twin.add_image(IMAGE, image);
        let mut body = delegate_body("delegate", IMAGE);
        body["NetworkingConfig"]["EndpointsConfig"] = json!({ "bridge": {}, "other": {} });
        let outcome = twin.create("delegate", None, &body).await;
        assert_eq!(outcome.is_ok(), accepted, "1.{minor}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_scene_has_the_same_events_twice() {
    async fn story() -> (Vec<String>, Vec<String>) {
        let twin = host(Behaviour::exits(seconds(20), 1));
        let id = twin.run("crash", &with_policy("crash", "always"));
        let other = twin.run_delegate("delegate", IMAGE);
        sleep(seconds(45)).await;
        twin.restart_engine(seconds(5));
        let _away = twin.stop(&other, seconds(30)).await;
        sleep(seconds(60)).await;
        twin.rename(&id, "renamed").await.unwrap();
        let events = twin.events().iter().map(|event| format!("{event:?}")).collect();
        (
            events,
            twin.calls().iter().map(|call| format!("{call:?}")).collect(),
        )
    }
    let (one, two) = (story().await, story().await);
    assert!(one.0.len() > 10);
    assert_eq!(one, two);
}
