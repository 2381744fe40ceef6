//! A process that follows an upgrade is killed at a request, and the next one finishes the upgrade.

use super::proxy::{Kill, Proxy};
use super::site::{A, B, C, PATIENCE, Site, image};
use kit::lab::{eventually, kill_at_each_point};

fn site(test: &str) -> (Site, Proxy, std::path::PathBuf) {
    let site = Site::new(test);
    let proxy = Proxy::new(&site.kubeconfig());
    let through = site.write("through", &proxy.kubeconfig());
    (site, proxy, through)
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn the_next_run_finishes_an_upgrade_killed_at_any_request() {
    let (mut site, proxy, through) = site("kills");
    let (mut wanted, mut other) = (B, A);
    let kills = kill_at_each_point([Kill::Before, Kill::After], |point, how| {
        site.publish(wanted);
        let is_killed = proxy.kill_at(point, how, || site.start(&through, "killed", &["once"]));
        let run = site.run(&["once"]);
        assert_eq!(run.code, Some(0), "{how:?} {point}: {}", run.text);
        assert_eq!(site.image(), image(wanted), "{how:?} {point}: {}", run.text);
        assert_eq!(site.annotation("failed-image"), None, "{how:?} {point}");
        assert_eq!(site.running(), [image(wanted)], "{how:?} {point}: {}", run.text);
        std::mem::swap(&mut wanted, &mut other);
        is_killed
    });
    assert!(kills > 6, "{kills}");
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn the_next_run_rolls_back_a_failed_upgrade_killed_at_any_write() {
    let (mut site, proxy, through) = site("kills-failure");
    site.publish(C);
    let mut tried = 0;
    // The image, its failure, and the way back.
    for point in [0, 1, 2, 3, 4, 8] {
        for how in [Kill::Before, Kill::After] {
            let is_killed = proxy.kill_at(point, how, || site.start(&through, "killed", &["once"]));
            let run = site.run(&["once"]);
            assert_eq!(
                (run.code, site.image()),
                (Some(0), image(A)),
                "{how:?} {point}: {}",
                run.text
            );
            assert_eq!(
                site.annotation("failed-image"),
                Some(image(C)),
                "{how:?} {point}: {}",
                run.text
            );
            eventually("the old one serves", PATIENCE, || site.running() == [image(A)]);
            site.kubectl(&[
                "annotate",
                "deployment",
                "delegate",
                "io.delegate-upgrader.failed-image-",
            ]);
            tried += usize::from(is_killed);
        }
    }
    eprintln!("{tried} kills");
    assert!(tried > 6, "{tried}");
}
