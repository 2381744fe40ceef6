//! Our own parts of a new container: the image and our labels. Everything else belongs to its owner.

use delegate_upgrader::container::{ApiVersion, Inspected, label, restart_policy_document};
use delegate_upgrader::document::{create_request, verify};
use kit::checks::document::check;
use serde_json::{Value, json};

use kit::document::{image, inspect, inspected};

use super::rules::{overrides, same};

const ORIGINAL: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const COPY: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const CANDIDATE: &str = "3333333333333333333333333333333333333333333333333333333333333333";
const POLICIES: [&str; 5] = ["no", "always", "unless-stopped", "on-failure", "on-failure:3"];

/// An owner's container on an engine with this API version.
#[derive(Debug)]
struct Case {
    document: Value,
    policy: &'static str,
    auto_remove: bool,
    api: ApiVersion,
}

/// Every policy, with and without `--rm`, on no network, one network, and two networks.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for policy in POLICIES {
        for (auto_remove, remembers) in [(false, false), (true, false), (false, true)] {
            // No engine accepts `--rm` with a policy; a person may give a policy to the copy of a container with `--rm`.
            if auto_remove && policy != "no" {
                continue;
            }
            for networks in [&[][..], &["build"], &["build", "tasks"]] {
                for api in [41, 44, 51] {
                    cases.push(case(
                        policy,
                        auto_remove,
                        remembers,
                        networks,
                        ApiVersion::new(1, api),
                    ));
                }
            }
        }
    }
    cases
}

fn case(
    policy: &'static str,
    auto_remove: bool,
    remembers: bool,
    networks: &[&str],
    api: ApiVersion,
) -> Case {
    let aliases = [json!(["delegate"]), Value::Null];
    let endpoints = networks.iter().zip(aliases);
    let endpoints: Value = endpoints
        .map(|(network, aliases)| {
            (
                (*network).to_owned(),
                json!({ "NetworkID": network, "Aliases": aliases }),
            )
        })
        .collect();
    let mut labels = json!({ "mine": "1", label::RELEASE: "6" });
    if remembers {
        labels[label::AUTO_REMOVE] = json!("true");
    }
    let body = json!({
        "Labels": labels,
        "HostConfig": {
            "NetworkMode": networks.first().unwrap_or(&"none"),
            "RestartPolicy": restart_policy_document(policy),
            "AutoRemove": auto_remove,
        },
        "NetworkingConfig": { "EndpointsConfig": endpoints },
    });
    Case {
        document: inspect(ORIGINAL, &body, &json!({})),
        policy,
        auto_remove: (auto_remove || remembers) && policy == "no",
        api,
    }
}

fn changed(container: &Inspected, pointer: &str, value: Value) -> Inspected {
    let mut document = container.document().clone();
    *document.pointer_mut(pointer).unwrap() = value;
    inspected(&document)
}

/// The fuzz target's rule for any container: successors and their copies equal it but for our labels and the image.
#[test]
fn a_successor_equals_the_original_except_for_our_parts() {
    let image = image(&json!({}));
    let images = same(&image);
    for case in cases() {
        let api = case.api.minor;
        let input = json!({ "container": case.document, "old": image, "new": image, "api": api });
        check(input.to_string().as_bytes());
        let original = inspected(&case.document);
        let created = |of: &Inspected, id: &str| {
            let mut request = create_request(of, images, &overrides(), case.api).unwrap();
            let fresh = inspected(&inspect(id, &request.body, &json!({})));
            for (network, endpoint) in request.connect {
                request.body["NetworkingConfig"]["EndpointsConfig"][network] = endpoint;
            }
            (fresh, inspected(&inspect(id, &request.body, &json!({}))))
        };
        let (fresh, successor) = created(&original, CANDIDATE);
        let (_, copy) = created(&successor, COPY);
        let differs = |other: &Inspected| !verify(&original, other, images).unwrap().is_empty();
        for made in [&successor, &copy] {
            assert_eq!(made.restart_policy_text(), case.policy);
            assert_eq!(made.emulates_auto_remove(), case.auto_remove, "{case:?}");
            assert!(!differs(made), "{case:?}");
        }
        for policy in POLICIES.into_iter().filter(|policy| *policy != case.policy) {
            let policy_document = restart_policy_document(policy);
            let other = changed(&successor, "/HostConfig/RestartPolicy", policy_document);
            assert!(differs(&other), "{policy} for {}", case.policy);
        }
        let other = changed(&successor, "/HostConfig/AutoRemove", json!(true));
        assert!(differs(&other), "it has --rm");
        assert!(
            fresh.networks_to_connect().is_empty() || differs(&fresh),
            "a network is missing"
        );
    }
}
