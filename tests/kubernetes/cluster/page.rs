//! The commands of docs/usage/kubernetes.md on the documented manifest, unchanged except for names, values and images.

use std::process::Command;

use chrono::{Days, Utc};
use kit::commands::{Block, blocks};
use kit::lab::servers::TOKEN;
use kit::lab::{env, eventually, expect, program, project};

use super::site::{A, ACCOUNT, B, PATIENCE, Site, image};

/// The documented manifest before the change of its image, with the values that its user fills in.
fn documented(site: &Site) -> String {
    let manifest = std::fs::read_to_string(project().join("examples/kubernetes/documented.yaml"));
    let manifest = manifest.expect("the manifest");
    let token = expect(Command::new("sh").args(["-c", &format!("printf %s '{TOKEN}' | base64 --wrap 0")]));
    let filled = [
        ("<delegate>", "delegate"),
        ("<account>", ACCOUNT),
        ("<token in base64>", token.trim()),
        ("harness-delegate-ng", &site.namespace),
        ("https://app.harness.io", &site.manager("172.30.0.1")),
        ("delegate-upgrader-kubernetes:latest", "harness/upgrader:latest"),
        // The lab's Kubernetes knows only this version, and its nodes have the image.
        ("apiVersion: batch/v1\n", "apiVersion: batch/v1beta1\n"),
        ("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent"),
    ];
    filled.iter().fold(manifest, |text, (shown, value)| {
        assert!(text.contains(shown), "{shown}");
        text.replace(shown, value)
    })
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn the_commands_of_the_page_do_what_it_says() {
    let mut site = Site::new("page");
    site.publish_image(&image(B));
    let upgrader = "delegate-upgrader-kubernetes:page";
    expect(
        Command::new(project().join("tests/lab/upgrader-image"))
            .args([upgrader, &env("LAB_KUBERNETES_UPGRADER")])
            .env("FOR", "kubernetes"),
    );
    site.apply(&documented(&site));
    let file = site.write("config.yaml", &site.file("127.0.0.1"));
    let tomorrow = (Utc::now() + Days::new(1)).format("%Y-%m-%d").to_string();
    let page = std::fs::read_to_string(project().join("docs/usage/kubernetes.md")).expect("the page");
    let values = [
        ("harness-delegate-ng", site.namespace.as_str()),
        ("kubernetes-delegate", "delegate"),
        ("registry.example/delegate-upgrader-kubernetes:latest", upgrader),
        (
            "delegate-upgrader kubernetes",
            &format!("{} kubernetes", program().display()),
        ),
        ("config.yaml", &file.to_string_lossy()),
        ("2026-12-01", &tomorrow),
        ("--to 3", "--to 0"),
    ];
    let run = |command: &str| {
        let command = values.iter().fold(command.to_owned(), |text, (shown, value)| {
            text.replace(shown, value)
        });
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &command])
            .env("UPGRADER_TOKEN", TOKEN)
            .env("UPGRADE_HEALTHY_TIME", "2s");
        // kubectl runs as the administrator, and the program with the upgrader's account.
        if !command.starts_with("kubectl") {
            shell.env("KUBECONFIG", site.kubeconfig());
        }
        expect(&mut shell)
    };
    let mut commands: Vec<String> = blocks(&page).iter().flat_map(Block::commands).collect();
    commands.reverse();
    let mut next = |begin: &str| {
        let command = commands.pop().unwrap_or_default();
        assert!(
            command.contains(begin),
            "{command}: the page has another order than this test"
        );
        command
    };

    run(&next("set image"));
    run(&next("create job"));
    eventually("the pod of the job runs or has ended", PATIENCE, || {
        let selector = "job-name=upgrade-now";
        let phase = [
            "get",
            "pods",
            "--selector",
            selector,
            "--output",
            "jsonpath={.items[*].status.phase}",
        ];
        ["Running", "Succeeded", "Failed"].contains(&site.kubectl(&phase).as_str())
    });
    let log = run(&next("logs --follow"));
    assert_eq!(site.image(), image(B), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
    let checks = run(&next("doctor"));
    assert!(checks.contains("runs the published image"), "{checks}");
    let plan = run(&next("plan"));
    assert!(plan.contains("runs the published image"), "{plan}");
    let once = run(&next("once"));
    assert!(once.contains("runs the published image"), "{once}");
    run(&next("io.delegate-upgrader.pin=26.10"));
    assert_eq!(site.annotation("pin").as_deref(), Some("26.10"));
    site.kubectl(&["annotate", "deployment", "delegate", "io.delegate-upgrader.pin-"]);
    let history = run(&next("history"));
    assert!(
        history.contains(&image(A)) && history.contains("in service"),
        "{history}"
    );
    run(&next("rollback --to"));
    assert_eq!(site.image(), image(A));
    run(&next("retry"));
    assert_eq!(site.image(), image(B));
    run(&next("pause"));
    assert_eq!(site.annotation("paused").as_deref(), Some(tomorrow.as_str()));
    run(&next("resume"));
    assert_eq!(site.annotation("paused"), None);
    assert!(commands.is_empty(), "{commands:?}");
    let asked = std::fs::read_to_string(env("LAB_KUBERNETES_AUDIT")).expect("the audit log");
    let ours: Vec<&str> = asked
        .lines()
        .filter(|line| line.contains("system:serviceaccount:page:upgrader"))
        .collect();
    assert!(!ours.is_empty());
    assert!(!ours.iter().any(|line| line.contains(TOKEN)), "{ours:?}");
}
