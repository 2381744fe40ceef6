//! A host that an operator pauses, and a host that waits for its time, with the operator's commands.

use kit::contract::{self, lab::RealLab};
use std::time::Duration;

use kit::lab::{
    Lab, NEVER_HEALTHY, PATIENCE, Signal, Upgrader, V1, V2, WITH_HEALTHCHECK, eventually, image, image_of,
    life,
};
use serde_json::Value;

/// Other tests would also find the host paused.
#[test]
#[ignore = "pauses the whole host; make test runs it in a lab of its own"]
fn a_paused_host_begins_nothing_until_it_is_resumed() {
    let _turn = crate::restarts::turn();
    let lab = Lab::new("pause");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let upgrader = lab.upgrader(V2);
    let said = |command: &[&str], code: i32, words: &str| {
        let run = upgrader.run(command).ended(code);
        run.says(words);
    };
    said(&["resume"], 0, "Upgrades were not paused on this host.");
    said(
        &["pause", "--until", "tomorrow"],
        2,
        "--until tomorrow: expected a date such as",
    );
    said(&["pause", "--until", "2026-01-01"], 2, "is in the past");
    said(
        &["pause", "--until", "2126-12-01"],
        0,
        "Upgrades are paused on this host until 2126-12-01T00:00:00Z",
    );
    said(&["plan"], 0, "upgrades are paused until 2126-12-01T00:00:00Z");
    said(&["once"], 0, "upgrades are paused until 2126-12-01T00:00:00Z");
    said(&["doctor"], 0, "upgrades are paused on this host since");
    said(&["pause"], 0, "until you run `delegate-upgrader resume`");
    said(
        &["plan"],
        0,
        "upgrades are paused; `delegate-upgrader resume` resumes them",
    );
    assert_eq!((life(&name), lab.names()), (before.clone(), vec!["1".to_owned()]));
    lab.upgrader(V2)
        .with("DISABLE_AUTO_UPGRADE", "true")
        .run(&["resume"])
        .ended(78);
    said(
        &["pause", &name[..]],
        0,
        &format!("Upgrades are paused on {name} until you run"),
    );
    said(
        &["resume"],
        0,
        &format!("Upgrades have resumed on this host.\nBut upgrades are paused on {name} since"),
    );
    said(
        &["once"],
        0,
        &format!("its upgrades are paused; `delegate-upgrader resume {name}` resumes them"),
    );
    said(
        &["pause", "nobody"],
        2,
        "no managed delegate \"nobody\"; managed: ",
    );
    said(
        &["resume", "nobody"],
        2,
        "no managed delegate \"nobody\"; managed: ",
    );
    said(
        &["resume", &before.0[..12]],
        0,
        &format!("Upgrades have resumed on {name}."),
    );
    said(&["once"], 0, "replaced");
    assert_eq!(image_of(&name), image(V2));
}

/// This pauses the host.
#[test]
#[ignore = "pauses the whole host; make test runs it in a lab of its own"]
fn the_engine_stores_pauses_and_when_images_were_first_seen() {
    let _turn = crate::restarts::turn();
    let rule = async |lab: &RealLab| {
        contract::the_engine_stores_pauses_and_when_images_were_first_seen(lab).await;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(RealLab::check("an_engine_remembers", rule));
}

#[test]
fn an_image_waits_for_its_delay_and_the_engine_stores_the_first_sight() {
    let lab = Lab::new("delay");
    let name = lab.delegate("1", V1, &[]);
    let run = |delay: &str| lab.upgrader(V2).with("UPGRADE_DELAY", delay).run(&["once"]);
    let waits = run("1h").ended(0);
    waits.says("is published; delayed until");
    assert_eq!(image_of(&name), image(V1));
    // Another process, some seconds later.
    std::thread::sleep(Duration::from_secs(3));
    run("2s").ended(0);
    assert_eq!(image_of(&name), image(V2));
}

/// The rows of the delegates on the status screen.
fn screen(address: &str) -> Value {
    let status = kit::lab::wire::get(&format!("http://{address}/status"));
    let status: Value = serde_json::from_str(&status).expect("JSON");
    status["report"]["delegates"].clone()
}

/// The blockers of all rows except the schedule, each in one word, sorted.
fn words(rows: &Value) -> Vec<String> {
    let rows = rows.as_array().into_iter().flatten();
    let blockers = rows.filter_map(|row| row["blockers"].as_array()).flatten();
    let words = blockers.filter_map(|it| Some(it["reason"].as_str()?.to_owned()));
    let mut words: Vec<String> = words.filter(|word| word != "awaiting_schedule").collect();
    words.sort();
    words
}

/// Waits until the screen shows these blockers; a plan must show the same.
fn agree(address: &str, upgrader: &Upgrader, expected: &[&str]) {
    let shown = || words(&screen(address)) == expected;
    eventually(&format!("{expected:?}"), PATIENCE, shown);
    let plan = upgrader.run(&["plan", "--json"]);
    let begin = plan.text.find('[').expect("a list");
    let plan: Value = serde_json::from_str(plan.text[begin..].trim()).expect("JSON");
    assert_eq!(words(&plan), expected, "{plan}");
}

/// The screen shows the commands of other processes, and the daemon says the same as a plan, except for its schedule.
#[test]
fn the_screen_follows_other_processes_and_agrees_with_the_plan() {
    let lab = Lab::new("screen");
    let name = lab.delegate("1", V1, &[]);
    let with_schedule = |published: &str| lab.upgrader(published).with("SCHEDULE", "0 0 1 1 *");
    let started = |upgrader: &Upgrader| {
        let daemon = upgrader.start();
        daemon.says("delegate is healthy", PATIENCE);
        let address = crate::daemon::address(&daemon.log());
        (daemon, address)
    };
    let upgrader = with_schedule(V2);
    let (mut daemon, address) = started(&upgrader);
    agree(&address, &upgrader, &[]);
    upgrader.run(&["pause", &name]).ended(0);
    agree(&address, &upgrader, &["paused"]);
    upgrader.run(&["resume", &name]).ended(0);
    agree(&address, &upgrader, &[]);
    for (command, then) in [("retry", "up_to_date"), ("rollback", "rolled_back")] {
        std::thread::scope(|scope| {
            let run = scope.spawn(|| upgrader.run(&[command, &name]).ended(0));
            let is_shown = || screen(&address)[0]["in_progress"] == true;
            eventually(command, PATIENCE, || is_shown() || run.is_finished());
            assert!(!run.is_finished(), "the screen showed it while it went on");
            run.join().expect("the command ends well");
        });
        agree(&address, &upgrader, &[then]);
    }
    daemon.signal(Signal::TERM);

    // A window that opens tomorrow, for an image that was not rolled back.
    let hour = chrono::Timelike::hour(&chrono::Utc::now());
    let closed = format!("{:02}:00-{:02}:00", (hour + 12) % 24, (hour + 13) % 24);
    let waits = with_schedule(WITH_HEALTHCHECK).with("UPGRADE_WINDOW", &closed);
    let (mut daemon, address) = started(&waits);
    agree(&address, &waits, &["outside_window"]);
    daemon.signal(Signal::TERM);

    // The image failed on one replica.
    lab.delegate("2", V1, &[]);
    let hasty = with_schedule(NEVER_HEALTHY).with("UPGRADE_HEALTHY_DEADLINE", "3s");
    hasty.run(&["once"]).ended(1);
    let (mut daemon, address) = started(&hasty);
    agree(&address, &hasty, &["halted", "quarantined"]);
    daemon.signal(Signal::TERM);
}
