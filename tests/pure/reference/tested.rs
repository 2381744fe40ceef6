//! `docs/usage/tested-versions.md`: the versions in `tests/lab/tested`, which the lab's scripts also read.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kit::page;

const PAGE: &str = "docs/usage/tested-versions.md";

#[test]
fn the_page_has_the_versions_that_the_tests_run_on() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/tested");
    let mut origins = String::from("| version | Debian release |\n|---|---|\n");
    let mut runs = String::from("| engine | Compose | tested | by |\n|---|---|---|---|\n");
    for line in fs::read_to_string(list).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["from", kind, version, release] => {
                let _ = writeln!(origins, "| {kind} {version} | {release} |");
            }
            ["make", target, engine, compose, what @ ..] => {
                let (version, way) = engine.split_once('-').unwrap_or((engine, ""));
                let way = match way {
                    "" => "",
                    "containerd" => " with the containerd image store",
                    "userns" => " with `userns-remap`",
                    "rootless" => " without root",
                    _ => panic!("{line}"),
                };
                let version = match version {
                    "podman" => "Podman",
                    "kubernetes" => "Kubernetes",
                    other => other,
                };
                let (compose, what) = (compose.replace(',', ", "), what.join(" "));
                let _ = writeln!(runs, "| {version}{way} | {compose} | {what} | `make {target}` |");
            }
            [] => {}
            [first, ..] => assert!(first.starts_with('#'), "{line}"),
        }
    }
    page::has(PAGE, "runs", &runs);
    page::has(PAGE, "origins", &origins);
}
