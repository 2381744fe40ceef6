//! From one image to another, and back from an image that fails.

use kit::lab::eventually;
use serde_json::Value;

use super::site::{A, B, C, PATIENCE, Site, image};

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_published_image_is_rolled_out_and_nothing_else_is_written() {
    let mut site = Site::with("rolled-out", 2, super::rights::DOCUMENTED);
    site.publish(B);
    let before = site.get();
    let run = site.run(&["once"]).ended(0);
    assert_eq!(site.image(), image(B), "{}", run.text);
    assert_eq!(site.running(), [image(B), image(B)]);
    // One patch: the old image, the wanted one and the time are written together with the image.
    assert_eq!(site.images_written(), [image(B)], "{}", run.text);
    assert_eq!(site.annotation("attempt-from"), Some(image(A)));
    assert_eq!(site.annotation("attempt-image"), Some(image(B)));
    let after = site.get();
    let cause = &after["metadata"]["annotations"]["kubernetes.io/change-cause"];
    assert_eq!(*cause, format!("delegate-upgrader: {} to {}", image(A), image(B)));
    // Except for the image, the spec is unchanged.
    let mut spec = after["spec"].clone();
    spec["template"]["spec"]["containers"][0]["image"] = Value::from(image(A));
    assert_eq!(spec, before["spec"]);
    // It asks only for the Deployment, and once for its pods, which it may not list.
    let refused: Vec<String> = site
        .requests()
        .iter()
        .filter(|request| request["responseStatus"]["code"] == 403)
        .map(|request| {
            request["objectRef"]["resource"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(refused, ["replicasets", "pods"]);
    assert!(
        run.text.contains("upgraded from") || run.text.contains("runs the published image"),
        "{}",
        run.text
    );
    assert!(site.asked().contains("kubernetes-delegate"), "{}", site.asked());

    let writes = site.writes().len();
    let run = site.run(&["once"]).ended(0);
    assert_eq!(site.writes().len(), writes, "{}", run.text);
    run.says(&format!("runs the published image {}", image(B)));

    site.run(&["rollback"]).ended(0);
    assert_eq!(site.image(), image(A));
    // It keeps the old image until a different one is published.
    let run = site.run(&["once"]);
    assert_eq!((run.code, site.image()), (Some(0), image(A)), "{}", run.text);
    assert!(
        run.text.contains("reason=\"rolled_back\"") || run.text.contains("rolled back from"),
        "{}",
        run.text
    );
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_broken_image_is_rolled_back_and_quarantined_over_three_runs() {
    let mut site = Site::with("broken", 2, super::rights::DETAILED);
    site.publish(C);
    let run = site.run(&["once"]);
    // With any other exit code, Kubernetes would start six more pods.
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(site.image(), image(A), "{}", run.text);
    assert_eq!(site.images_written(), [image(C), image(A)], "{}", run.text);
    assert_eq!(site.annotation("failed-image"), Some(image(C)));
    let cause = site.annotation("failed-cause").unwrap();
    assert!(cause.contains("exit code 1"), "{cause}");
    // The pod's own words, if the account may read them.
    run.says("ERROR delegate 26.12.1 cannot start: no such class");
    for _ in 0..2 {
        let writes = site.writes().len();
        let run = site.run(&["once"]).ended(0);
        assert!(
            run.text.contains("failed here once; next attempt after"),
            "{}",
            run.text
        );
        assert_eq!(site.writes().len(), writes, "{}", run.text);
    }
    eventually("both old pods serve", PATIENCE, || {
        site.running() == [image(A), image(A)]
    });
    // An operator overrules the quarantine.
    let run = site.run(&["retry"]).ended(1);
    assert_eq!(
        site.annotation("failed-attempts"),
        Some("2".to_owned()),
        "{}",
        run.text
    );
    assert_eq!(site.image(), image(A));
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_missing_image_is_rolled_back_at_our_deadline() {
    let mut site = Site::new("not-there");
    site.kubectl(&[
        "patch",
        "deployment",
        "delegate",
        "--patch",
        r#"{"spec":{"progressDeadlineSeconds":600}}"#,
    ]);
    site.variables
        .push(("UPGRADE_HEALTHY_DEADLINE".to_owned(), "15s".to_owned()));
    site.publish("26.99.1");
    let run = site.run(&["once"]).ended(0);
    assert_eq!(site.image(), image(A), "{}", run.text);
    assert_eq!(site.annotation("failed-image"), Some(image("26.99.1")));
    assert_eq!(site.running(), [image(A)]);
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn skips_a_paused_deployment_and_does_not_verify_one_without_pods() {
    let mut site = Site::new("paused");
    site.publish(B);
    site.kubectl(&["rollout", "pause", "deployment/delegate"]);
    let run = site.run(&["once"]).ended(0);
    run.says("spec.paused is true");
    assert_eq!(site.writes().len(), 0);
    site.kubectl(&["rollout", "resume", "deployment/delegate"]);
    site.kubectl(&["scale", "deployment/delegate", "--replicas=0"]);
    eventually("no pod is left", PATIENCE, || site.running().is_empty());
    let run = site.run(&["once"]).ended(0);
    assert_eq!(site.image(), image(B), "{}", run.text);
    run.says("not verified");
    // The next run notices that a later scale-up has a bad image.
    site.publish(C);
    let run = site.run(&["once"]);
    assert_eq!((run.code, site.image()), (Some(0), image(C)), "{}", run.text);
    site.kubectl(&["scale", "deployment/delegate", "--replicas=1"]);
    let run = site.run(&["once"]);
    assert_eq!((run.code, site.image()), (Some(0), image(B)), "{}", run.text);
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn delays_pauses_and_windows_also_apply_to_a_cluster() {
    let mut site = Site::new("held-back");
    site.publish(B);
    site.variables.push(("UPGRADE_DELAY".to_owned(), "1h".to_owned()));
    let run = site.run(&["once"]).ended(0);
    assert!(run.text.contains("is published; delayed until"), "{}", run.text);
    assert_eq!(site.annotation("first-seen-image"), Some(image(B)));
    site.variables.clear();
    site.run(&["pause", "--until", "2126-12-01"]).ended(0);
    let run = site.run(&["once"]);
    run.says("upgrades are paused until 2126-12-01T00:00:00Z");
    assert_eq!(site.image(), image(A));
    assert_eq!(site.run(&["resume"]).code, Some(0));
    let run = site.run(&["once"]);
    assert_eq!((run.code, site.image()), (Some(0), image(B)), "{}", run.text);
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_manager_that_cannot_be_reached_changes_nothing_and_is_named_while_it_is_awaited() {
    let mut site = Site::new("manager-away");
    // Nothing listens on that port.
    site.manager_host = Some("http://127.0.0.1:9".to_owned());
    let (once, plan) = std::thread::scope(|scope| {
        let plan = scope.spawn(|| site.run(&["plan"]));
        (site.run(&["once"]), plan.join().expect("a plan"))
    });
    // Kubernetes would restart the pod of a CronJob.
    for (run, code, waits) in [(once, 0, 1), (plan, 1, 0)] {
        assert_eq!(run.code, Some(code), "{}", run.text);
        run.assert_manager_is_away(waits);
    }
    assert_eq!(site.writes(), Vec::<Value>::new());
}
