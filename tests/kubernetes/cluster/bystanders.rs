//! Other people and programs that work on the same Deployment.

use std::time::Duration;

use kit::lab::eventually;

use super::rights::{DETAILED, DOCUMENTED};
use super::site::{A, B, C, PATIENCE, Site, image};

/// Sets the image by hand.
fn set_image(site: &Site, version: &str) {
    let image = format!("delegate={}", image(version));
    site.kubectl(&["set", "image", "deployment/delegate", &image]);
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn keeps_image_that_someone_else_reverted() {
    let reverted = Site::new("reverted");
    stays_reverted(reverted, |site| set_image(site, A));
    // That also brings the annotations of that time back.
    let undone = Site::with("undone", 1, DETAILED);
    stays_reverted(undone, |site| {
        drop(site.kubectl(&["rollout", "undo", "deployment/delegate"]));
    });
}

fn stays_reverted(mut site: Site, revert: impl Fn(&Site)) {
    site.publish(B);
    assert_eq!(site.run(&["once"]).code, Some(0));
    revert(&site);
    for _ in 0..2 {
        let run = site.run(&["once"]);
        assert_eq!((run.code, site.image()), (Some(0), image(A)), "{}", run.text);
        run.says("rolled back from");
    }
    assert_eq!(site.images_written(), [image(B)]);
    assert_eq!(site.annotation("failed-image"), None);
    // The upgrader takes up the next published image again.
    site.publish("26.11.2");
    site.variables
        .push(("UPGRADE_HEALTHY_DEADLINE".to_owned(), "10s".to_owned()));
    let run = site.run(&["once"]);
    assert_eq!(
        site.images_written(),
        [image(B), image("26.11.2"), image(A)],
        "{}",
        run.text
    );
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn keeps_third_image_set_by_someone_else() {
    let mut site = Site::new("third-image");
    site.publish(B);
    assert_eq!(site.run(&["once"]).code, Some(0));
    set_image(&site, "26.10.1");
    set_image(&site, C);
    let run = site.run(&["once"]);
    assert_eq!((run.code, site.image()), (Some(0), image(C)), "{}", run.text);
    assert_eq!(site.images_written(), [image(B)]);
}

/// Kills all processes of this program. A bare Debian has no program for that.
fn kill_all(program: &str) {
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc").unwrap() {
        let entry = entry.unwrap();
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.trim() == program {
            kit::lab::send(kit::lab::Signal::KILL, &entry.file_name().to_string_lossy());
            killed += 1;
        }
    }
    assert!(killed > 0, "no {program} runs");
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn waits_for_an_api_server_that_is_briefly_away() {
    let mut site = Site::new("api-away");
    site.publish(B);
    let mut process = site.start(&site.kubeconfig(), "log", &["once"]);
    eventually("it has begun", PATIENCE, || site.image() == image(B));
    kill_all("kube-apiserver");
    let ended = process.wait().unwrap();
    assert!(ended.success(), "{}", site.read("log"));
    eventually("the API server is back", PATIENCE, || {
        std::thread::sleep(Duration::from_secs(1));
        std::process::Command::new("kubectl")
            .args(["get", "nodes"])
            .output()
            .unwrap()
            .status
            .success()
    });
    assert_eq!(site.image(), image(B));
    assert_eq!(site.images_written(), [image(B)]);
}

/// An API server that has just started has no permissions yet.
#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn waits_out_the_loss_of_a_previous_permission() {
    let mut site = Site::new("not-permitted");
    site.publish(B);
    let mut process = site.start(&site.kubeconfig(), "log", &["once"]);
    eventually("it has begun", PATIENCE, || site.image() == image(B));
    site.kubectl(&["delete", "rolebinding", "upgrader"]);
    eventually("it is refused", PATIENCE, || {
        site.read("log").contains("refuses what it did before")
    });
    site.permit(DOCUMENTED);
    let ended = process.wait().unwrap();
    assert!(ended.success(), "{}", site.read("log"));
    assert_eq!((site.image(), site.running()), (image(B), vec![image(B)]));
    assert_eq!(site.images_written(), [image(B)]);
    // A lasting refusal is a failure.
    site.publish(A);
    let mut process = site.start(&site.kubeconfig(), "log", &["once"]);
    eventually("it has begun", PATIENCE, || site.image() == image(A));
    site.kubectl(&["delete", "rolebinding", "upgrader"]);
    let ended = process.wait().unwrap();
    assert_eq!(ended.code(), Some(1), "{}", site.read("log"));
    assert!(
        site.read("log").contains("cannot get resource"),
        "{}",
        site.read("log")
    );
}
