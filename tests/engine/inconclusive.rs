//! A verdict on an image is none while something from outside is in the way.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kit::lab::{Lab, NEVER_HEALTHY, V1, V2, image, image_of, life, static_binary};

const ACCOUNT: &str = "acct-TEST_000000000000";
const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// A Manager that can go away; ended with the test.
struct Manager {
    process: Child,
    url: String,
}

impl Manager {
    fn that_publishes(version: &str) -> Self {
        let mut process = Command::new(static_binary("manager"))
            .args(["--listen", "127.0.0.1:0", "--account", ACCOUNT, "--token", KEY])
            .args(["--published", &image(version)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Manager starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("its output");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it says where it listens");
        let address = line
            .trim_start_matches("listening on ")
            .split(',')
            .next()
            .expect("an address");
        Self {
            url: format!("http://{address}"),
            process,
        }
    }

    fn go_away(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.go_away();
    }
}

#[test]
fn a_manager_that_is_away_during_the_proof_makes_it_inconclusive() {
    let lab = Lab::new("outage");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let upgrader = |manager: &Manager| {
        lab.upgrader(V2)
            .without("PUBLISHED_IMAGE")
            .with("ACCOUNT_ID", ACCOUNT)
            .with("UPGRADER_TOKEN", KEY)
            .with("MANAGER_HOST_AND_PORT", &manager.url)
    };
    let mut manager = Manager::that_publishes(NEVER_HEALTHY);
    let mut once = upgrader(&manager).with("HEALTHY_DEADLINE", "4s").begin("once");
    once.says("reason=\"proving\"", Duration::from_secs(60));
    manager.go_away();
    let run = once.wait();
    assert_eq!(run.code, Some(1), "{}", run.text);
    for words in [
        "reason=\"confirming\"",
        "reason=\"inconclusive\"",
        "but the Manager is unreachable",
    ] {
        assert!(run.text.contains(words), "{words:?} is not in:\n{}", run.text);
    }
    assert_eq!(
        (life(&name), lab.names()),
        (before, vec!["1".to_owned()]),
        "{}",
        run.text
    );

    // The image has no bad name, and the next one published is tried like any other.
    let manager = Manager::that_publishes(NEVER_HEALTHY);
    let plan = upgrader(&manager).run(&["plan"]);
    assert_eq!(plan.code, Some(0), "{}", plan.text);
    assert!(plan.text.contains("replace "), "{}", plan.text);
    let manager = Manager::that_publishes(V2);
    let run = upgrader(&manager).run(&["once"]);
    assert_eq!((run.code, image_of(&name)), (Some(0), image(V2)), "{}", run.text);
    assert_eq!(lab.names(), ["1"]);
}
