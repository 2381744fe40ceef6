//! A socket proxy that lets through only the calls that the documentation lists.

use delegate_upgrader::engine::{ApiCall, Purpose};

use crate::proxy::{Proxy, without_services};
use kit::lab::{Lab, V1, V2, docker, image, image_of};

fn all(_: &ApiCall) -> bool {
    true
}

/// Delegates that together cause every call of an upgrade: on two networks, with a published port, with `--rm`, created
/// by Compose, with and without a memory limit.
pub(crate) fn one_of_each_kind(lab: &Lab) -> [String; 4] {
    let network = format!("{}-net", lab.name);
    docker(&["network", "create", "--label", &lab.label(), &network]);
    let plain = lab.delegate("1", V1, &[]);
    let published = lab.delegate("2", V1, &["--publish", "127.0.0.1::3460", "--network", &network]);
    docker(&["network", "connect", "bridge", &published]);
    let fleeting = lab.delegate("3", V1, &["--rm"]);
    let by_compose = lab.delegate(
        "4",
        V1,
        &["--label", "com.docker.compose.project=site", "--memory", "64m"],
    );
    [plain, published, fleeting, by_compose]
}

#[test]
fn an_upgrade_makes_only_documented_calls() {
    let lab = Lab::new("rights");
    let delegates = one_of_each_kind(&lab);
    let proxy = Proxy::that_allows(all);
    let run = lab.upgrader(V2).with("DOCKER_HOST", &proxy.host()).run(&["once"]);
    assert_eq!(proxy.refused(), Vec::<String>::new(), "{}", run.text);
    assert_eq!(run.code, Some(0), "{}", run.text);
    for name in delegates {
        assert_eq!(image_of(&name), image(V2), "{name}");
    }
}

#[test]
fn health_checks_need_three_reads() {
    let lab = Lab::new("reads");
    lab.delegate("1", V1, &[]);
    let proxy = Proxy::that_allows(|call| call.purpose == Purpose::HealthChecks);
    let watcher = lab
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .with("DISABLE_AUTO_UPGRADE", "true");
    for command in ["plan", "once", "doctor"] {
        watcher.run(&[command]).ended(0);
    }
    assert_eq!(without_services(proxy.refused()), Vec::<String>::new());
}

/// Only the registry and the image know whether the tag still stands for the running image.
#[test]
fn health_checks_of_a_moving_tag_work_without_the_comparison_reads() {
    let lab = Lab::new("moving-reads");
    let tag = image(&lab.name);
    docker(&["tag", &image(V1), &tag]);
    docker(&["push", &tag]);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    lab.container("1", &["--env", &variable, &tag]);
    let watcher = lab
        .upgrader(V1)
        .with("PUBLISHED_IMAGE", &tag)
        .with("DISABLE_AUTO_UPGRADE", "true");
    let not_known = "cannot resolve the tag";

    let three = Proxy::that_allows(|call| call.purpose == Purpose::HealthChecks);
    let kept_short = watcher.clone().with("DOCKER_HOST", &three.host());
    for command in ["plan", "once"] {
        let run = kept_short.run(&[command]).ended(0);
        run.says(not_known);
    }
    let doctor = kept_short.run(&["doctor"]).ended(0);
    assert_eq!(
        doctor.text.matches("it is for mutable tags").count(),
        2,
        "{}",
        doctor.text
    );

    let five = Proxy::that_allows(|call| call.purpose == Purpose::HealthChecks || call.compares_tags);
    let all = watcher.with("DOCKER_HOST", &five.host());
    for command in ["plan", "once", "doctor"] {
        let run = all.run(&[command]).ended(0);
        run.never_says(not_known);
    }
    assert_eq!(without_services(five.refused()), Vec::<String>::new());
    docker(&["rmi", &tag]);
}
