//! Other variables of a Deployment, and back from settings that fail.

use kit::lab::eventually;
use serde_json::Value;

use super::rights::{DETAILED, DOCUMENTED};
use super::site::{A, B, PATIENCE, Site, image};

impl Site {
    /// The variables of the delegate's container.
    fn variables(&self) -> Value {
        self.get()["spec"]["template"]["spec"]["containers"][0]["env"].clone()
    }

    fn pods(&self) -> Vec<String> {
        let names = self.kubectl(&["get", "pods", "--selector", "app=delegate", "--output", "name"]);
        let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.sort();
        names
    }
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn variables_change_by_a_proof_and_come_back() {
    let mut site = Site::with("settings", 2, DETAILED);
    site.publish(A);
    let before = (site.get()["spec"].clone(), site.pods());
    // The pods of these settings fail, and those of the former ones are the same pods as before.
    let failing = ["reconfigure", "--env", "FAILS=true", "--unset", "NOTHING"];
    let run = site.run(&failing).ended(1);
    run.says("with the new settings env.FAILS was rejected");
    assert_eq!(site.get()["spec"], before.0, "{}", run.text);
    eventually("only the former pods are there", PATIENCE, || {
        site.pods() == before.1
    });

    let new = site.write("token", "n3wn3wn3wn3w");
    let secret = format!("DELEGATE_TOKEN={}", new.display());
    let command = ["reconfigure", "--secret", &secret];
    let plan = site.run(&[&["plan"], &command[..]].concat()).ended(0);
    plan.says("DELEGATE_TOKEN changes; have Kubernetes roll it out");
    let run = site.run(&command).ended(0);
    let changed = site.variables();
    assert!(changed.to_string().contains("n3wn3wn3wn3w"), "{changed}");
    assert!(
        !run.text.contains("n3wn3w") && !plan.text.contains("n3wn3w"),
        "{}",
        run.text
    );
    let annotations = site.get()["metadata"]["annotations"].clone();
    assert!(!annotations.to_string().contains("n3wn3wn3w"), "{annotations}");
    assert_eq!(site.running(), [image(A), image(A)]);
    site.run(&["rollback"]).ended(0);
    assert_eq!(
        site.variables(),
        before.0["template"]["spec"]["containers"][0]["env"]
    );
    site.run(&["rollback"]).ended(0);
    assert_eq!(site.variables(), changed);
    site.publish(B);
    site.run(&["once"]).ended(0);
    assert_eq!((site.variables(), site.image()), (changed, image(B)));
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn without_the_right_to_find_the_former_settings_nothing_changes() {
    let mut site = Site::with("settings-blind", 1, DOCUMENTED);
    site.publish(A);
    let before = site.get()["spec"].clone();
    let run = site.run(&["reconfigure", "--env", "JAVA_OPTS=-Xmx2g"]).ended(1);
    run.says("cannot list resource \"replicasets\"");
    assert_eq!(site.get()["spec"], before);
    assert!(site.writes().is_empty(), "{}", run.text);
}
