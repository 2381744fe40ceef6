//! A host that an operator pauses, and one that waits for its time, by the commands that they use.

use kit::contract::{self, lab::RealLab};
use kit::lab::{Lab, V1, V2, image, image_of, life};

/// Others would find the host paused, too.
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
        &format!("Upgrades have resumed on this host.\nThey are still paused on {name}"),
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

/// It pauses the host.
#[test]
#[ignore = "pauses the whole host; make test runs it in a lab of its own"]
fn an_engine_remembers_a_pause_and_when_an_image_was_first_seen() {
    let _turn = crate::restarts::turn();
    let rule = async |lab: &RealLab| {
        contract::an_engine_remembers_a_pause_and_when_an_image_was_first_seen(lab).await;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(RealLab::check("an_engine_remembers", rule));
}

#[test]
fn an_image_waits_for_its_delay_and_the_engine_remembers_since_when() {
    let lab = Lab::new("delay");
    let name = lab.delegate("1", V1, &[]);
    let run = |delay: &str| lab.upgrader(V2).with("UPGRADE_DELAY", delay).run(&["once"]);
    let waits = run("1h").ended(0);
    waits.says("is published; delayed until");
    assert_eq!(image_of(&name), image(V1));
    // Another process, some seconds later.
    std::thread::sleep(std::time::Duration::from_secs(3));
    run("2s").ended(0);
    assert_eq!(image_of(&name), image(V2));
}
