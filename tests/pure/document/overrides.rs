//! What is ours on a new container: the image, and our labels. Everything else is its owner's.

use delegate_upgrader::container::{ApiVersion, ImageId, Inspected, label, restart_policy_document};
use delegate_upgrader::document::{CreateRequest, Images, Overrides, create_request, differences, verify};
use serde_json::{Value, json};

use kit::document::{image, inspect, inspected};

const ORIGINAL: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const COPY: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const CANDIDATE: &str = "3333333333333333333333333333333333333333333333333333333333333333";
const REFERENCE: &str = "harness/delegate:2";
const POLICIES: [&str; 5] = ["no", "always", "unless-stopped", "on-failure", "on-failure:3"];

/// An owner's container on an engine of some age.
#[derive(Clone, Debug)]
struct Case {
    document: Value,
    policy: &'static str,
    auto_remove: bool,
    api: ApiVersion,
}

/// Every policy, with and without `--rm`, on no network, one, and two.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for policy in POLICIES {
        for (auto_remove, remembers) in [(false, false), (true, false), (false, true)] {
            // No engine takes `--rm` with a policy; to a copy of one with `--rm` somebody may give one.
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

/// What the engine shows of the new container, before and after the endpoints are connected that its create call did
/// not take.
fn created(id: &str, request: &CreateRequest) -> (Inspected, Inspected) {
    let mut body = request.body.clone();
    let before = inspected(&inspect(id, &body, &json!({})));
    for (network, endpoint) in &request.connect {
        body["NetworkingConfig"]["EndpointsConfig"][network] = endpoint.clone();
    }
    (before, inspected(&inspect(id, &body, &json!({}))))
}

fn changed(container: &Inspected, pointer: &str, value: Value) -> Inspected {
    let mut document = container.document().clone();
    *document.pointer_mut(pointer).unwrap() = value;
    inspected(&document)
}

#[test]
fn successor_equals_original_but_for_our_parts() {
    let (image, id) = (image(&json!({})), ImageId::new("sha256:2"));
    let images = Images {
        old: &image,
        new: &image,
    };
    for (case, by_id) in cases()
        .into_iter()
        .flat_map(|case| [(case.clone(), false), (case, true)])
    {
        let original = inspected(&case.document);
        let labels = [(label::RELEASE, "7".to_owned())];
        let overrides = Overrides {
            reference: REFERENCE,
            by_id: by_id.then_some(&id),
            labels: &labels,
        };
        let request = create_request(&original, images, &overrides, case.api).unwrap();
        let (fresh, successor) = created(CANDIDATE, &request);

        assert_eq!(successor.image_reference(), REFERENCE);
        let written = if by_id { "sha256:2" } else { REFERENCE };
        assert_eq!(&request.body["Image"], written);
        assert_eq!(successor.label(label::RELEASE), Some("7"));
        assert_eq!(successor.label("mine"), Some("1"));
        assert_eq!(successor.restart_policy_text(), case.policy);
        assert!(!successor.auto_remove(), "it would vanish when it stops");
        assert_eq!(successor.emulates_auto_remove(), case.auto_remove, "{case:?}");
        let noted = successor.label(label::NETWORKS);
        let noted = noted.map(|text| serde_json::from_str::<Value>(text).unwrap());
        let expected: Value = request.connect.iter().cloned().collect();
        assert_eq!(noted, (!request.connect.is_empty()).then_some(expected));

        let differs = |other: &Inspected| !verify(&original, other, images).unwrap().is_empty();
        assert!(!differs(&successor), "{case:?}");
        for policy in POLICIES.into_iter().filter(|policy| *policy != case.policy) {
            let policy_document = restart_policy_document(policy);
            let other = changed(&successor, "/HostConfig/RestartPolicy", policy_document);
            assert!(differs(&other), "{policy} for {}", case.policy);
        }
        let other = changed(&successor, "/HostConfig/AutoRemove", json!(true));
        assert!(differs(&other), "it has --rm");
        assert!(
            request.connect.is_empty() || differs(&fresh),
            "a network is missing"
        );
    }
}

#[test]
fn a_copy_of_a_successor_is_what_the_original_was() {
    let image = image(&json!({}));
    let images = Images {
        old: &image,
        new: &image,
    };
    let overrides = Overrides {
        reference: REFERENCE,
        by_id: None,
        labels: &[],
    };
    for case in cases() {
        let original = inspected(&case.document);
        let copy = |of: &Inspected| create_request(of, images, &overrides, case.api).unwrap();
        let (_, successor) = created(CANDIDATE, &copy(&original));
        let (_, again) = created(COPY, &copy(&successor));
        assert_eq!(again.emulates_auto_remove(), case.auto_remove);
        assert_eq!(verify(&original, &again, images).unwrap(), []);
        assert_eq!(differences(&successor, &again, images), []);
    }
}
