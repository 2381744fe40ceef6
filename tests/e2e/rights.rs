//! Behind a socket proxy that lets through what the documentation lists, and nothing else.

use delegate_upgrader::engine::{Need, Right};

use crate::lab::{Lab, V1, V2, docker, image, image_of};
use crate::proxy::Proxy;

fn all(_: &Right) -> bool {
    true
}

/// Delegates that between them make every call of an upgrade: on two networks, with a published port, with `--rm`, by
/// compose, with and without a memory limit.
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
fn an_upgrade_asks_for_nothing_that_is_not_documented() {
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
    let proxy = Proxy::that_allows(|right| right.need == Need::Watch);
    let watcher = lab
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .with("DISABLE_AUTO_UPGRADE", "true");
    for command in ["plan", "once", "doctor"] {
        let run = watcher.run(&[command]);
        assert_eq!(run.code, Some(0), "{command}: {}", run.text);
    }
    assert_eq!(proxy.refused(), Vec::<String>::new());
}
