//! When an image was released, according to its registry, and what follows from it. The registry is a stand-in.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use crate::stand_in::StandIn;

/// A cluster whose Deployment runs an image of January 2024 from a mirror that does not know it.
struct Old {
    cluster: StandIn,
    mirror: String,
}

impl Old {
    fn new() -> Self {
        let cluster = StandIn::with(&json!({}));
        let mirror = format!("127.0.0.1:{}", cluster.port);
        cluster.give(&format!("{mirror}/harness/delegate:24.01.81000"));
        Self { cluster, mirror }
    }

    /// Gives the registry an index, one platform's manifest, and a configuration on another server.
    fn built(&self, created: &str) {
        let state = &mut self.cluster.state.lock().unwrap();
        state.registry = Some(("sha256:0".to_owned(), self.mirror.clone()));
        let index = json!({ "manifests": [{ "digest": "sha256:1" }, { "digest": "sha256:9" }] });
        let manifest = json!({ "config": { "digest": "sha256:2" }, "layers": [{ "digest": "sha256:3" }] });
        state.documents = [
            ("/v2/harness/delegate/manifests/24.01.81000", index),
            ("/v2/harness/delegate/manifests/sha256:1", manifest),
            (
                "/v2/harness/delegate/blobs/sha256:2",
                json!("/storage/2?signed=yes"),
            ),
            ("/storage/2?signed=yes", json!({ "created": created })),
        ]
        .map(|(path, document)| (path.to_owned(), document))
        .into();
    }

    /// Runs a command outside its window; returns what it printed, and whether it upgraded.
    fn run(&self, command: &str) -> (String, bool) {
        let hour = |hours| (Utc::now() + TimeDelta::hours(hours)).format("%H:00").to_string();
        let published = format!("{}/harness/delegate:99.12.1", self.mirror);
        let variables = [
            ("PUBLISHED_IMAGE", published.as_str()),
            ("UPGRADE_WINDOW", &format!("{}-{}", hour(2), hour(3))),
            ("UPGRADE_NOW_IF_EXPIRED", "true"),
        ];
        let lines = format!("registryMirror: {}", self.mirror);
        let (code, text) = self.cluster.run_with(command, &lines, &variables);
        assert_eq!(code, Some(0), "{text}");
        (text, !self.cluster.written().is_empty())
    }
}

#[test]
fn upgrades_at_once_what_has_certainly_expired() {
    let old = Old::new();
    let (text, is_upgraded) = old.run("once");
    assert!(
        !is_upgraded && text.contains("reason=\"outside_window\""),
        "{text}"
    );
    assert!(
        text.contains("its version reached end of life about 2024-09-30"),
        "{text}"
    );
    assert!(!text.contains("404"), "{text}");
    let (text, _) = old.run("doctor");
    let says = "cannot ask its registry when its image was released: the registry answers 404";
    assert!(text.contains(says), "{text}");
    assert!(!old.run("plan").0.contains("404"));

    old.built("2024-01-20T10:00:00Z");
    let exact = "its version reached end of life on 2024-09-20";
    let (text, _) = old.run("plan");
    assert!(text.contains(exact) && !text.contains("window"), "{text}");
    old.cluster.state.lock().unwrap().asked.clear();
    let (text, is_upgraded) = old.run("once");
    assert!(is_upgraded && text.contains(exact), "{text}");
    // One notice, without a first one that would say `about`.
    assert!(!text.contains("about"), "{text}");
    let asked = &old.cluster.state.lock().unwrap().asked;
    let tokens = asked.iter().filter(|path| path.starts_with("/token?"));
    assert_eq!(tokens.count(), 1, "{asked:?}");
    // The login goes nowhere else.
    assert!(asked.contains(&"/storage/2?signed=yes ".to_owned()), "{asked:?}");
}

#[test]
fn a_fix_of_an_old_version_waits_for_its_window() {
    let old = Old::new();
    old.built(&(Utc::now() - TimeDelta::days(9)).to_rfc3339());
    let (text, is_upgraded) = old.run("once");
    assert!(
        !is_upgraded && text.contains("reason=\"outside_window\""),
        "{text}"
    );
    assert!(!text.contains("end of life"), "{text}");
    // Neither a version of this month, nor what a tag may have referred to when it was pulled.
    for tag in [format!("{}.1", Utc::now().format("%y.%m")), "latest".to_owned()] {
        old.cluster
            .give(&format!("{}/harness/delegate:{tag}", old.mirror));
        old.cluster.state.lock().unwrap().asked.clear();
        let (text, _) = old.run("once");
        let asked = &old.cluster.state.lock().unwrap().asked;
        assert!(!asked.iter().any(|path| path.contains(&tag)), "{asked:?} {text}");
    }
}

#[test]
fn a_silent_registry_leaves_the_month_of_the_tag() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let old = Old {
        mirror: format!("127.0.0.1:{}", silent.local_addr().unwrap().port()),
        ..Old::new()
    };
    old.cluster
        .give(&format!("{}/harness/delegate:24.01.81000", old.mirror));
    let (text, is_upgraded) = old.run("once");
    assert!(
        !is_upgraded && text.contains("end of life about 2024-09-30"),
        "{text}"
    );
    let (text, _) = old.run("doctor");
    assert!(
        text.contains("image was released: no answer within 5 s"),
        "{text}"
    );
}

#[test]
fn doctor_says_what_a_self_managed_manager_supports() {
    let old = Old::new();
    let manager = format!(
        "delegateConfig: {{accountId: a, managerHost: 'http://{}'}}",
        old.mirror
    );
    let lines = format!("registryMirror: {}\n{manager}", old.mirror);
    let token = ("UPGRADER_TOKEN", "000102030405060708090a0b0c0d0e0f");
    let (_, text) = old.cluster.run_with("doctor", &lines, &[token]);
    let says = "if that Manager is self-managed, only the version that it publishes is supported";
    assert!(text.contains(says), "{text}");
}
