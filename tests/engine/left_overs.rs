//! Broken leftovers of a replacement, behind a proxy that answers for the engine.

use super::proxy::{Proxy, Treatment};
use kit::lab::{Lab, NEVER_HEALTHY, PATIENCE, V1, V2, docker, eventually, image, life};

#[test]
fn a_broken_failed_container_does_not_block_a_good_image() {
    for is_inspected in [false, true] {
        let lab = Lab::new(if is_inspected { "stuck" } else { "unread" });
        let options = ["--network", "host", "--userns", "host", "--env", "PORT=43472"];
        let name = lab.delegate("1", V1, &options);
        let times = |version: &str| {
            let upgrader = lab.upgrader(version).with("UPGRADE_HEALTHY_TIME", "1s");
            upgrader.with("HEALTH_PORT", "43472")
        };
        let never_healthy = times(NEVER_HEALTHY).with("UPGRADE_HEALTHY_DEADLINE", "3s");
        never_healthy.run(&["once"]).ended(1);
        assert_eq!(lab.names(), ["1", "1.failed-1"]);
        let failed = life(&format!("{name}.failed-1")).0;
        let proxy = Proxy::that_treats(move |method, path| match path {
            _ if !path.contains(&failed) || is_inspected && method == "GET" => Treatment::LetThrough,
            _ => Treatment::Broken,
        });
        let through = times(V2).with("DOCKER_HOST", &proxy.host());
        let doctor = through.run(&["doctor"]);
        let is_warned_of = |line: &str| line.starts_with("warn") && line.contains("failed-1: ");
        let is_said = doctor.text.lines().any(is_warned_of);
        assert_eq!(is_said, !is_inspected, "{}", doctor.text);
        let daemon = through.begin("once");
        let replaced = format!("{name} {}", image(V2));
        let list = || docker(&["ps", "--format", "{{.Names}} {{.Image}}"]);
        let is_replaced = || list().lines().any(|line| line == replaced);
        eventually("it is replaced", PATIENCE, is_replaced);
        assert_eq!(lab.names().last().map(String::as_str), Some("1.failed-1"));
        drop(daemon);
        let doctor = times(V2).run(&["doctor"]);
        doctor.says("is left over");
        times(V2).run(&["once"]).ended(0);
        assert_eq!(lab.names(), ["1"]);
    }
}
