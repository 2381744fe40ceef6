//! Five upgraders and a real Prometheus with the rules of examples/monitoring: a bad image ends on the canaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kit::lab::servers::Server;
use kit::lab::{Daemon, Lab, NEVER_HEALTHY, PATIENCE, Signal, V1, V2, eventually, image, image_of, inspect};
use serde_json::json;

const CONFIG: &str = "
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: delegate-upgrader
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
";

/// A Prometheus whose alerts fire after a second. The path is that of the file with what it asks.
fn prometheus(directory: &Path) -> (Server, PathBuf) {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/monitoring/alerts.yml");
    let rules = fs::read_to_string(rules).expect("the rules");
    let hastily = |line: &str| match line.trim_start().strip_prefix("for: ") {
        Some(time) => line.replace(time, "1s"),
        None => line.to_owned(),
    };
    let rules: Vec<String> = rules.lines().map(hastily).collect();
    fs::write(directory.join("alerts.yml"), rules.join("\n")).expect("a file");
    fs::write(directory.join("prometheus.yml"), CONFIG).expect("a file");
    let targets = directory.join("targets.json");
    fs::write(&targets, "[]").expect("a file");
    let server = Server::start(|data, port| {
        let mut command = Command::new("prometheus");
        command
            .arg(format!(
                "--config.file={}",
                directory.join("prometheus.yml").display()
            ))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command
    });
    (server, targets)
}

/// A host's stand-in: a workload, its delegate and its upgrader.
struct Host {
    lab: Lab,
    delegate: String,
    daemon: Option<Daemon>,
}

impl Host {
    fn new(number: usize) -> Self {
        let lab = Lab::new(&format!("fleet{number}"));
        let delegate = lab.delegate("1", V1, &[]);
        Self {
            lab,
            delegate,
            daemon: None,
        }
    }

    /// Restarts its upgrader with this published image and delay.
    fn publishes(&mut self, version: &str, delay: &str, prometheus: &Server) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.signal(Signal::TERM);
        }
        let upgrader = self.lab.upgrader(version).with("SCHEDULE", "@every 2s");
        let upgrader = upgrader
            .with("UPGRADE_HEALTHY_DEADLINE", "5s")
            .with("UPGRADE_DELAY", delay)
            .with("HOLD_ON_ALERTS", "ImageRejected|DelegateUnhealthy")
            .with("PROMETHEUS_URL", &prometheus.url());
        self.daemon = Some(upgrader.start());
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("it runs")
    }
}

/// Restarts all upgraders, of which the first two are canaries, and tells Prometheus their addresses.
fn all_publish(hosts: &mut [Host], (version, delay): (&str, &str), prometheus: &Server, targets: &Path) {
    let mut addresses = Vec::new();
    for (number, host) in hosts.iter_mut().enumerate() {
        host.publishes(version, if number < 2 { "0s" } else { delay }, prometheus);
        host.daemon().says("status at http://", PATIENCE);
        addresses.push(crate::daemon::address(&host.daemon().log()));
    }
    let next = targets.with_extension("next");
    fs::write(&next, json!([{ "targets": addresses }]).to_string()).expect("a file");
    fs::rename(next, targets).expect("a file");
}

#[test]
#[ignore = "needs Prometheus: make surroundings"]
fn a_bad_image_ends_on_the_canaries_and_all_take_the_good_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let (prometheus, targets) = prometheus(directory.path());
    let mut hosts: Vec<Host> = (1..=5).map(Host::new).collect();
    all_publish(&mut hosts, (NEVER_HEALTHY, "1h"), &prometheus, &targets);
    let (canaries, others) = hosts.split_at(2);
    for host in canaries {
        host.daemon().says("reason=\"rejected\"", PATIENCE);
    }
    for host in others {
        host.daemon().says("reason=\"delayed\"", PATIENCE);
    }
    let firing = || kit::lab::wire::get(&format!("http://{}/api/v1/alerts", prometheus.address()));
    eventually("ImageRejected fires", PATIENCE, || {
        firing().contains("ImageRejected")
    });

    // Their delay is over, since the engine remembers when they first saw the image.
    all_publish(&mut hosts, (NEVER_HEALTHY, "1s"), &prometheus, &targets);
    for host in &hosts[2..] {
        host.daemon().says("reason=\"alert_firing\"", PATIENCE);
        let doctor = host.lab.upgrader(NEVER_HEALTHY);
        let doctor = doctor
            .with("HOLD_ON_ALERTS", "ImageRejected")
            .with("PROMETHEUS_URL", &prometheus.url());
        let said = doctor.run(&["doctor"]);
        said.says(&format!(
            "these alerts hold upgrades back: ImageRejected of {}",
            image(NEVER_HEALTHY)
        ));
    }
    // Some further runs.
    std::thread::sleep(std::time::Duration::from_secs(10));

    all_publish(&mut hosts, (V2, "1s"), &prometheus, &targets);
    for (number, host) in hosts.iter().enumerate() {
        host.daemon()
            .says("replaced; the old container is gone", PATIENCE);
        assert_eq!(image_of(&host.delegate), image(V2));
        let label = &inspect(&host.delegate)["Config"]["Labels"]["io.delegate-upgrader.release"];
        // The bad image was the first attempt of a canary.
        assert_eq!(label, if number < 2 { "2" } else { "1" }, "{}", host.delegate);
    }
}
