//! `reconfigure` of a service: other variables by the proof of an upgrade.

use std::collections::BTreeSet;

use kit::lab::{V1, V2, image};

use super::Service;
use super::failures::CRASH_IS_NOTICED;

impl Service {
    /// The variables of the service, sorted.
    fn variables(&self) -> BTreeSet<String> {
        let document = self.document();
        let env = document["Spec"]["TaskTemplate"]["ContainerSpec"]["Env"].clone();
        serde_json::from_value(env).expect("variables")
    }

    fn has(&self, variable: &str) -> bool {
        self.variables().contains(variable)
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_token_is_rotated_and_comes_back() {
    let service = Service::new("swarm-token", &["--env", "DELEGATE_TOKEN=0ld0ld0ld"]);
    let (before, tasks) = (service.image(), service.tasks("{{.ID}}"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "n3wn3wn3w\n").expect("the token");
    let secret = format!("DELEGATE_TOKEN={}", file.path().display());
    let new = ["--workload", &service.lab.name, "--secret", &secret];

    let plan = service
        .run(V1, &[&["plan", "reconfigure"], &new[..]].concat())
        .ended(0);
    plan.says("DELEGATE_TOKEN changes; have Swarm roll it out");
    assert_eq!(service.tasks("{{.ID}}"), tasks, "a plan changes nothing");
    let run = service.run(V1, &[&["reconfigure"], &new[..]].concat()).ended(0);
    run.says("changing the settings env.DELEGATE_TOKEN");
    assert!(service.has("DELEGATE_TOKEN=n3wn3wn3w") && service.image() == before);
    assert_eq!(service.running(), [image(V1), image(V1)]);
    let again = service.run(V1, &[&["reconfigure"], &new[..]].concat()).ended(0);
    again.says("these settings are in force already");
    let history = service.run(V1, &["history", &service.name]).ended(0);
    history.says("changed the settings env.DELEGATE_TOKEN");
    for text in [&plan.text, &run.text, &again.text, &history.text] {
        assert!(!text.contains("n3wn3w") && !text.contains("0ld0ld"), "{text}");
    }
    let labels = service.document()["Spec"]["Labels"].to_string();
    assert!(
        !labels.contains("n3wn3w") && !labels.contains("0ld0ld"),
        "{labels}"
    );

    // A run changes nothing, the way back leads to the old token, and the next one to the new one.
    let tasks = service.tasks("{{.ID}}");
    service.run(V1, &["once"]).ended(0);
    assert_eq!(service.tasks("{{.ID}}"), tasks);
    for (token, published) in [("0ld0ld0ld", V1), ("n3wn3wn3w", V1)] {
        service.run(published, &["rollback", &service.name]).ended(0);
        assert!(service.has(&format!("DELEGATE_TOKEN={token}")));
    }
    service.run(V2, &["once"]).ended(0);
    assert!(service.has("DELEGATE_TOKEN=n3wn3wn3w"), "an upgrade keeps it");
    assert_eq!(service.running(), [image(V2), image(V2)]);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn settings_that_fail_end_as_before_and_halt_the_other_service() {
    for action in ["rollback", "pause"] {
        let options = ["--update-failure-action", action, "--update-monitor", "20s"];
        let service = Service::new(&format!("swarm-bad-{action}"), &options);
        let other = service.beside("other", &options);
        let before = [service.variables(), other.variables()];
        let crashing = ["--env", "CRASH_AFTER_SECONDS=1"];
        let command = ["reconfigure", "--workload", &service.lab.name];
        let upgrader = service
            .upgrader(V1)
            .with("UPGRADE_HEALTHY_TIME", CRASH_IS_NOTICED);
        let run = upgrader.run(&[&command[..], &crashing].concat()).ended(1);
        run.says("with the new settings env.CRASH_AFTER_SECONDS was rejected");
        run.says("halted");
        assert_eq!([service.variables(), other.variables()], before, "{action}");
        service.will_run(&[V1, V1]);
        other.will_run(&[V1]);
        service
            .run(V1, &["history"])
            .ended(0)
            .says("with new settings was rejected");
        // The image is not in quarantine.
        service.run(V2, &["once"]).ended(0);
        assert_eq!(service.running(), [image(V2), image(V2)]);
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_change_that_a_service_cannot_keep_is_refused_by_name() {
    let service = Service::new("swarm-no", &[]);
    let version = service.document()["Version"].clone();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "s3cr3ts3cr3t").expect("the token");
    let secret = format!("DELEGATE_TOKEN={}", file.path().display());
    for (given, words) in [
        (
            ["--memory", "1g"],
            "`docker service update` changes labels and limits",
        ),
        (
            ["--label", "a=b"],
            "`docker service update` changes labels and limits",
        ),
        (["--secret", &secret], "DELEGATE_TOKEN is not among its variables"),
    ] {
        let command = ["reconfigure", &service.name, given[0], given[1]];
        service.run(V1, &command).ended(1).says(words);
    }
    assert_eq!(service.document()["Version"], version);
}
