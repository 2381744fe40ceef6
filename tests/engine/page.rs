//! The status page in a browser.

use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kit::lab::wire::get;
use kit::lab::{Lab, NEVER_HEALTHY, V1};

const PATIENCE: Duration = Duration::from_secs(60);

/// What a browser makes of a page after some updates: its document, and what it logs of it.
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
        // The one with the fewest tasks goes first, and the other one is halted.
        format!("All 2 delegates are healthy on {V1}; not upgraded: {one}, {two}"),
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
    for (name, size) in [
        ("page.png", "--window-size=1000,1100"),
        ("page-phone.png", "--window-size=390,1600"),
    ] {
        let (_, console) = browse(url, &[&picture(name), size]);
        assert!(console.is_empty(), "{console:#?}");
        assert!(pictures.join(name).exists(), "{name}");
    }
}
