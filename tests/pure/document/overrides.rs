//! What is ours on a new container, for random owners: the image, and our labels.

use delegate_upgrader::container::{ApiVersion, ImageId, Inspected, label, restart_policy_document};
use delegate_upgrader::document::{CreateRequest, Images, Overrides, create_request, differences, verify};
use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::select;
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

fn case() -> impl Strategy<Value = Case> {
    let networks = btree_map(select(vec!["build", "storage", "tasks"]), any::<bool>(), 0..3);
    let api = select(vec![
        ApiVersion::new(1, 41),
        ApiVersion::new(1, 44),
        ApiVersion::new(1, 51),
    ]);
    (
        select(POLICIES.to_vec()),
        any::<bool>(),
        any::<bool>(),
        networks,
        api,
    )
        .prop_map(|(policy, auto_remove, remembers, networks, api)| {
            // No engine takes `--rm` with a policy; to a copy of one with `--rm` somebody may give one.
            let policy = if auto_remove && !remembers { "no" } else { policy };
            let endpoints: Value = networks
                .iter()
                .map(|(network, has_alias)| {
                    let aliases = if *has_alias {
                        json!(["delegate"])
                    } else {
                        Value::Null
                    };
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
                    "NetworkMode": networks.keys().next().unwrap_or(&"none"),
                    "RestartPolicy": restart_policy_document(policy),
                    "AutoRemove": auto_remove && !remembers,
                },
                "NetworkingConfig": { "EndpointsConfig": endpoints },
            });
            Case {
                document: inspect(ORIGINAL, &body, &json!({})),
                policy,
                auto_remove: (auto_remove || remembers) && policy == "no",
                api,
            }
        })
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_successor_is_what_it_replaces_but_for_what_is_ours(case in case(), by_id in any::<bool>()) {
        let (image, id) = (image(&json!({})), ImageId::new("sha256:2"));
        let images = Images { old: &image, new: &image };
        let original = inspected(&case.document);
        let labels = [(label::RELEASE, "7".to_owned())];
        let overrides = Overrides { reference: REFERENCE, by_id: by_id.then_some(&id), labels: &labels };
        let request = create_request(&original, images, &overrides, case.api).unwrap();
        let (fresh, successor) = created(CANDIDATE, &request);

        prop_assert_eq!(successor.image_reference(), REFERENCE);
        let written = if by_id { "sha256:2" } else { REFERENCE };
        prop_assert_eq!(&request.body["Image"], written);
        prop_assert_eq!(successor.label(label::RELEASE), Some("7"));
        prop_assert_eq!(successor.label("mine"), Some("1"));
        prop_assert_eq!(successor.restart_policy_text(), case.policy);
        prop_assert!(!successor.auto_remove(), "it would vanish when it stops");
        prop_assert_eq!(successor.emulates_auto_remove(), case.auto_remove);
        let noted = successor.label(label::NETWORKS).map(|text| serde_json::from_str::<Value>(text).unwrap());
        let expected: Value = request.connect.iter().cloned().collect();
        prop_assert_eq!(noted, (!request.connect.is_empty()).then_some(expected));

        prop_assert_eq!(verify(&original, &successor, images).unwrap(), []);
        for policy in POLICIES.into_iter().filter(|policy| *policy != case.policy) {
            let other = changed(&successor, "/HostConfig/RestartPolicy", restart_policy_document(policy));
            prop_assert!(!verify(&original, &other, images).unwrap().is_empty(), "{} for {}", policy, case.policy);
        }
        let other = changed(&successor, "/HostConfig/AutoRemove", json!(true));
        prop_assert!(!verify(&original, &other, images).unwrap().is_empty(), "it has --rm");
        if !request.connect.is_empty() {
            prop_assert!(!verify(&original, &fresh, images).unwrap().is_empty(), "a network is missing");
        }
    }

    #[test]
    fn a_copy_of_a_successor_is_what_the_original_was(case in case()) {
        let image = image(&json!({}));
        let images = Images { old: &image, new: &image };
        let original = inspected(&case.document);
        let copy = |of: &Inspected| {
            let overrides = Overrides { reference: REFERENCE, by_id: None, labels: &[] };
            create_request(of, images, &overrides, case.api).unwrap()
        };
        let (_, successor) = created(CANDIDATE, &copy(&original));
        let (_, again) = created(COPY, &copy(&successor));
        prop_assert_eq!(again.emulates_auto_remove(), case.auto_remove);
        prop_assert_eq!(verify(&original, &again, images).unwrap(), []);
        prop_assert_eq!(differences(&successor, &again, images), []);
    }
}
