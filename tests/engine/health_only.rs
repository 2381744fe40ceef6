//! Health-only mode: no write reaches the engine.

use crate::proxy::Proxy;
use kit::lab::{Lab, NEVER_HEALTHY, PATIENCE, Signal, V1, V2, docker, eventually, image, life};

#[test]
fn health_only_mode_sends_only_get_requests_to_the_engine() {
    let lab = Lab::new("health-only");
    let good = lab.delegate("1", V1, &[]);
    let bad = lab.delegate("2", NEVER_HEALTHY, &["--restart", "always"]);
    let before = [&good, &bad].map(|name| life(name));
    let recorder = Proxy::with_rules(|_, _| true);
    let watcher = lab
        .upgrader(V2)
        .with("DOCKER_HOST", &recorder.host())
        .with("DISABLE_AUTO_UPGRADE", "true")
        .with("SCHEDULE", "* * * * * *")
        .with("RUN_ON_START", "true");
    let mut daemon = watcher.start();
    daemon.says("scheduled run", PATIENCE);
    daemon.says("delegate is unhealthy", PATIENCE);
    let impatient = lab.upgrader(V2).with("UPGRADE_HEALTHY_TIME", "1s");
    let impatient = impatient.with("UPGRADE_HEALTHY_DEADLINE", "2s");
    let fails = || impatient.run(&["doctor"]).code == Some(1);
    eventually("the delegate has had its time", PATIENCE, fails);
    let doctor = impatient.run(&["doctor"]).ended(1);
    doctor.says(&format!("FAIL  health         {bad} is unhealthy: "));
    doctor.says(&format!("; see `docker logs {bad}`"));
    daemon.says(
        &format!(
            "{} is published; health checks only (DISABLE_AUTO_UPGRADE=true)",
            image(V2)
        ),
        PATIENCE,
    );
    docker(&["kill", &good]);
    // The check may come in the moment before its end is known.
    daemon.says_one_of(&["exited with code 137", "nothing listens"], PATIENCE);
    daemon.signal(Signal::TERM);
    watcher.run(&["once"]).ended(0);
    let asked = recorder.asked();
    let lists = asked.iter().filter(|call| call.contains("/containers/json"));
    assert!(lists.count() > 3, "{asked:?}");
    assert!(asked.iter().all(|call| call.starts_with("GET ")), "{asked:?}");
    assert_eq!(life(&bad), before[1]);
    assert_eq!(lab.names(), ["1", "2"]);
}

#[test]
fn a_plan_only_reads_and_gives_its_reasons() {
    let lab = Lab::new("plan");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let recorder = Proxy::with_rules(|_, _| true);
    let upgrader = lab.upgrader(V2).with("DOCKER_HOST", &recorder.host());
    let plan = upgrader.run(&["plan", "--json"]).ended(0);
    let rows: serde_json::Value = serde_json::from_str(&plan.text).expect("JSON and nothing else");
    assert_eq!(rows[0]["action"], "replace");
    assert_eq!(rows[0]["update_order"], "start-first");
    let by_id = upgrader.run(&["plan", &before.0[..12]]).ended(0);
    by_id.says(&name);
    let asked = recorder.asked();
    assert!(asked.iter().all(|call| call.starts_with("GET ")), "{asked:?}");
    assert_eq!(life(&name), before);
    let current = lab.upgrader(V1).run(&["plan"]);
    current.says("runs the published image");
}
