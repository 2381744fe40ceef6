//! The status page in a browser.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Command;

use kit::lab::wire::get;
use kit::lab::{Lab, NEVER_HEALTHY, PATIENCE, V1};
use serde_json::{Value, json};

const LIGHT: &str = "--blink-settings=preferredColorScheme=1";
const DARK: &str = "--blink-settings=preferredColorScheme=0";

/// Opens a page in a browser, lets it refresh a few times, and returns its DOM and console log.
fn browse(url: &str, arguments: &[&str]) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().expect("a directory");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=12000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(url)
        .output()
        .expect("chromium");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let log = text(&output.stderr);
    let console = log.lines().filter(|line| line.contains("CONSOLE"));
    (text(&output.stdout), console.map(str::to_owned).collect())
}

#[test]
#[ignore = "needs a browser: make surroundings"]
fn page_in_a_browser_shows_all_delegates_and_logs_nothing() {
    let lab = Lab::new("page");
    lab.delegate("1", V1, &["--env", "TASKS=2"]);
    lab.delegate("2", V1, &[]);
    let [one, two] = ["1", "2"].map(|suffix| format!("{}-{suffix}", lab.name));
    let daemon = lab
        .upgrader(NEVER_HEALTHY)
        .with("RUN_ON_START", "true")
        .with("UPGRADE_HEALTHY_DEADLINE", "6s")
        .start();
    daemon.says("was rejected", PATIENCE);
    let log = daemon.log();
    let (_, rest) = log.split_once("status at ").expect("an address");
    let url = rest.split_whitespace().next().expect("an address");
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let picture = |name: &str| format!("--screenshot={}", pictures.join(name).display());
    let (document, console) = browse(url, &["--dump-dom"]);
    for text in [
        // The delegate with the fewest tasks comes first; the other one is halted.
        format!("All 2 delegates are healthy on {V1}; not upgraded: {one}, {two}"),
        " rejected</span>".to_owned(),
        "<dt>Tasks</dt><dd>2</dd>".to_owned(),
        "<dt>Rejected</dt>".to_owned(),
        format!("last lines of {two}.failed-1"),
    ] {
        assert!(document.contains(&text), "no {text:?} in {document}");
    }
    assert!(
        document.contains("id=\"stale\" hidden"),
        "it could update itself: {document}"
    );
    assert!(console.is_empty(), "{console:#?}");
    let mut metrics = tempfile::tempfile().expect("a file");
    write!(metrics, "{}", get(&format!("{url}metrics"))).expect("a file");
    metrics.rewind().expect("a file");
    let checked = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(metrics)
        .output()
        .expect("promtool");
    let text = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && text.is_empty(), "{text}");
    for (theme, width, height, name) in [
        (LIGHT, 360, 1900, "page-light-360.png"),
        (DARK, 360, 1900, "page-dark-360.png"),
        (LIGHT, 1200, 1100, "page-light-1200.png"),
        (DARK, 1200, 1100, "page-dark-1200.png"),
    ] {
        let size = format!("--window-size={width},{height}");
        let (_, console) = browse(url, &[&picture(name), &size, theme]);
        assert!(console.is_empty(), "{console:#?}");
        assert!(pictures.join(name).exists(), "{name}");
    }
}

#[test]
#[ignore = "needs a browser: make surroundings"]
fn pictures_are_complete_in_their_first_frame_and_respect_reduced_motion() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("picture.html");
    for (name, moves) in [
        ("demo.svg", true),
        ("usage/rollout.svg", false),
        ("development/architecture.svg", false),
    ] {
        let svg = fs::read_to_string(docs.join(name)).expect("a picture");
        assert!(svg.contains("<title"), "{name}");
        let script = include_str!("picture.js");
        let page = format!("<!doctype html><meta charset=utf-8>{svg}<script>{script}</script>");
        fs::write(&file, page).expect("a file");
        let url = format!("file://{}", file.display());
        for (theme, motion, moving) in [
            (LIGHT, "--enable-automation", moves),
            (DARK, "--force-prefers-reduced-motion", false),
        ] {
            let (document, _) = browse(&url, &["--dump-dom", theme, motion]);
            let title = document.rsplit_once("<title>").map_or("", |(_, rest)| rest);
            let found = title.split("</title>").next().unwrap_or_default();
            let found: Value = serde_json::from_str(found).expect(&document);
            let variance = found["variance"].as_u64().unwrap_or(0);
            assert_eq!(found["cut"], json!([]), "{name} in {theme}");
            assert!(variance > 100, "{name} in {theme}: {variance}");
            assert_eq!(found["moving"].as_u64() > Some(0), moving, "{name}, {motion}");
        }
    }
}
