//! `kubernetes reconfigure`: other variables of a Deployment by the proof of an upgrade.

use serde_json::json;

use crate::stand_in::StandIn;

const A: &str = "harness/delegate:26.10.1";
const B: &str = "harness/delegate:26.11.1";

/// A Deployment with a plain variable, and one from a Secret.
fn delegate() -> StandIn {
    let delegate = StandIn::with(&json!({}));
    {
        let mut state = delegate.state.lock().unwrap();
        let env = &mut state.document["spec"]["template"]["spec"]["containers"][1]["env"];
        let env = env.as_array_mut().unwrap();
        env.push(json!({ "name": "JAVA_OPTS", "value": "-Xmx1g" }));
        env.push(json!({ "name": "EMPTY" }));
        env.push(json!({ "name": "PROXY_PASSWORD", "value": "0ld0ld0ld" }));
        env.push(
            json!({ "name": "TOKEN_PART", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }),
        );
    }
    delegate
}

#[test]
fn a_variable_changes_and_comes_back_and_an_upgrade_keeps_it() {
    let delegate = delegate();
    let command = "reconfigure --env JAVA_OPTS=-Xmx2g --unset UNUSED --env EMPTY=";
    let (code, text) = delegate.run(&format!("plan {command}"), A);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("JAVA_OPTS becomes -Xmx2g; have Kubernetes roll it out"),
        "{text}"
    );
    assert!(delegate.written().is_empty(), "{text}");
    for (command, value) in [
        (command, "-Xmx2g"),
        ("rollback", "-Xmx1g"),
        ("rollback", "-Xmx2g"),
    ] {
        let (code, text) = delegate.run(command, A);
        let now = delegate.variable("JAVA_OPTS");
        assert_eq!((code, now.as_deref()), (Some(0), Some(value)), "{text}");
    }
    delegate.written();
    let (code, text) = delegate.run(command, A);
    assert!(
        code == Some(0) && text.contains("these settings are in force already"),
        "{text}"
    );
    assert_eq!(delegate.run("once", B).0, Some(0));
    assert_eq!(delegate.written().last(), Some(&Some(B.to_owned())));
    assert_eq!(delegate.variable("JAVA_OPTS").as_deref(), Some("-Xmx2g"));
    let (_, history) = delegate.run("history", B);
    assert!(history.contains("changed its settings"), "{history}");
}

/// `reconfigure` takes a secret from a file only; the way back has it from the former settings.
#[test]
fn rollback_brings_back_a_secret_that_was_unset() {
    let delegate = delegate();
    for (command, value) in [
        ("reconfigure --unset PROXY_PASSWORD", None),
        ("rollback", Some("0ld0ld0ld")),
    ] {
        let (code, text) = delegate.run(command, A);
        let now = delegate.variable("PROXY_PASSWORD");
        assert_eq!((code, now.as_deref()), (Some(0), value), "{text}");
        assert!(!text.contains("0ld0ld"), "{text}");
    }
}

#[test]
fn settings_that_fail_are_taken_back_once() {
    let delegate = delegate();
    let (code, text) = delegate.run("reconfigure --env FAILS=true", A);
    assert_eq!((code, delegate.variable("FAILS")), (Some(1), None), "{text}");
    assert!(
        text.contains("with the new settings env.FAILS was rejected"),
        "{text}"
    );
    assert_eq!(delegate.written().len(), 2, "{text}");
    // A pause after that is left alone.
    let pause = |paused: bool| delegate.state.lock().unwrap().document["spec"]["paused"] = json!(paused);
    pause(true);
    let (_, text) = delegate.run("once", A);
    assert!(
        delegate.written().is_empty() && text.contains("update_paused"),
        "{text}"
    );
    pause(false);
    // Neither a second run nor another image is held by that.
    assert_eq!(delegate.run("once", A).0, Some(0));
    assert!(delegate.written().is_empty());
    assert_eq!(delegate.run("once", B).0, Some(0));
    assert_eq!(delegate.written(), [Some(B.to_owned())]);
}

#[test]
fn refuses_a_change_that_cannot_be_kept_or_taken_back() {
    let delegate = delegate();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "s3cr3ts3cr3t").unwrap();
    let secret = format!("--secret NEW_TOKEN={}", file.path().display());
    delegate.state.lock().unwrap().sets = Some("OF_POLICY");
    let refused = |given: &str, words: &str| {
        let (code, text) = delegate.run(&format!("reconfigure {given}"), A);
        assert!(code != Some(0) && text.contains(words), "{given}: {text}");
        assert!(!text.contains("s3cr3t"), "{text}");
        assert!(delegate.written().is_empty(), "{given}: {text}");
    };
    refused(&secret, "NEW_TOKEN is not among its variables");
    refused("--unset TOKEN_PART", "TOKEN_PART comes from a Secret");
    refused("--env DELEGATE_NAME=other", "it would be another delegate");
    refused(
        "--env OF_POLICY=mine",
        "an admission policy sets env.OF_POLICY in another way",
    );
    delegate.state.lock().unwrap().document["spec"]["revisionHistoryLimit"] = json!(0);
    refused("--env A=b", "would forget the former settings");
}

#[test]
fn a_policys_words_hide_the_values_that_they_quote() {
    let delegate = delegate();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "s3cr3ts3cr3t").unwrap();
    delegate.state.lock().unwrap().policy = Some((400, "the webhook denied PROXY_PASSWORD=s3cr3ts3cr3t"));
    let command = format!("reconfigure --secret PROXY_PASSWORD={}", file.path().display());
    let variables = [("PUBLISHED_IMAGE", A), ("LOG_LEVEL", "debug")];
    let (code, text) = delegate.run_with(&command, "", &variables);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the webhook denied PROXY_PASSWORD=***"), "{text}");
    assert!(!text.contains("s3cr3t"), "{text}");
    // A patch of the image does not name them.
    delegate.state.lock().unwrap().policy = Some((400, "the webhook denied PROXY_PASSWORD=0ld0ld0ld"));
    let variables = [("PUBLISHED_IMAGE", B), ("LOG_LEVEL", "debug")];
    let (_, text) = delegate.run_with("once", "", &variables);
    assert!(text.contains("the webhook denied PROXY_PASSWORD=***"), "{text}");
    assert!(!text.contains("0ld0ld"), "{text}");
}

/// A change of the template by someone else leaves two ReplicaSets with the present settings.
#[test]
fn settings_stay_if_someone_else_has_changed_the_template_since() {
    let delegate = delegate();
    assert_eq!(delegate.run("reconfigure --env JAVA_OPTS=-Xmx2g", A).0, Some(0));
    {
        let mut state = delegate.state.lock().unwrap();
        let template = state.document["spec"]["template"].clone();
        for revision in ["7", "8"] {
            let annotations = json!({ "deployment.kubernetes.io/revision": revision });
            state.replica_sets.push(json!({
                "metadata": { "annotations": annotations, "ownerReferences": [{ "uid": "7a5b" }] },
                "spec": { "template": template },
            }));
        }
    }
    let (code, text) = delegate.run("rollback", A);
    assert_eq!(delegate.variable("JAVA_OPTS").as_deref(), Some("-Xmx2g"));
    assert!(
        code == Some(1) && text.contains("someone has changed it since"),
        "{text}"
    );
}
