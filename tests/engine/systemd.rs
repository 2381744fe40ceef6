//! The service of `examples/systemd` under systemd: it starts, upgrades, takes new settings, is killed when it hangs, stops.

use std::ffi::OsString;
use std::process::Command;

use kit::lab::{Lab, V1, V2, image, image_of, project};

/// An operator's commands, with shorter times in the unit.
const STORY: &str = r#"
set -u
export DOCKER_HOST=unix:///run/engine.sock
unit=delegate-upgrader
shown() { systemctl show --property "$1" --value $unit; }
until_shown() {
    for _ in $(seq 2000); do case "$(shown "$1")" in $2) echo "$1: $(shown "$1")"; return;; esac; sleep 0.1; done
    echo "$1 is still $(shown "$1")"
}
# A reload that is over may not have been told to systemd yet.
settled() {
    local state
    for _ in $(seq 2000); do
        state=$(systemctl is-active $unit)
        [ "$state" = reloading ] || break
        sleep 0.1
    done
    echo "$state"
}
tell() { sed -i "s/^HEALTH_INTERVAL=.*/HEALTH_INTERVAL=$1/" /etc/delegate-upgrader/delegate-upgrader.env; }

printf '%s\n' "$SETTINGS" REGISTRY_USERNAME=robot >/etc/delegate-upgrader/delegate-upgrader.env
install -m 600 /dev/stdin /etc/delegate-upgrader/registry-password <<<hunter2-hunter2
mkdir -p /run/systemd/system/$unit.service.d
cat >/run/systemd/system/$unit.service.d/test.conf <<'UNIT'
[Service]
WatchdogSec=10s
RestartSec=1s
LoadCredential=registry-password:/etc/delegate-upgrader/registry-password
UNIT

systemctl start $unit && echo "started: $(systemctl is-active $unit)"
until_shown StatusText "*is healthy on $NEW*"

tell 2s; systemctl reload $unit && echo "reloaded: $(settled)"
tell soon; systemctl reload $unit && echo "reloaded: $(settled)"
until_shown StatusText "reload rejected: HEALTH_INTERVAL*"
tell 2s

pid=$(shown MainPID)
kill -STOP "$pid"
until_shown NRestarts 1
until_shown ActiveState active
[ "$(shown MainPID)" != "$pid" ] && echo 'another process'

systemctl stop $unit
echo "stopped: $(shown Result) $(systemctl is-active $unit)"
echo '--- journal'
journalctl --no-pager --output cat --unit $unit
echo '--- errors'
journalctl --no-pager --output cat --unit $unit --priority err _COMM=delegate-upgrad
"#;

/// The output of a story in a container of Debian with systemd. The story must succeed.
pub(crate) fn played(story: &str, variables: &[(&str, OsString)]) -> String {
    let ran = Command::new(project().join("tests/lab/systemd"))
        .args(["bash", "-c", story])
        .envs(variables.iter().cloned())
        .output()
        .expect("tests/lab/systemd runs");
    let [output, errors] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(ran.status.success(), "{output}{errors}");
    output
}

#[test]
fn the_systemd_service_upgrades_reloads_is_monitored_and_stops() {
    let found = Command::new("systemd-nspawn").arg("--version").output();
    if found.is_err() {
        assert!(
            std::env::var_os("LAB_SYSTEMD").is_none(),
            "systemd-nspawn is not installed"
        );
        println!("systemd-nspawn is not installed: skipped");
        return;
    }
    let lab = Lab::new("service");
    let name = lab.delegate("1", V1, &["--restart", "unless-stopped"]);
    let upgrader = lab.upgrader(V2).with("RUN_ON_START", "true");
    let mut settings = upgrader.settings();
    settings.retain(|setting| !setting.starts_with("DOCKER_HOST="));
    settings.push("DOCKER_HOST=unix:///run/engine.sock".to_owned());
    let story = format!("SETTINGS='{}' NEW={V2}\n{STORY}", settings.join("\n"));
    let output = played(&story, &[]);
    assert_eq!(image_of(&name), image(V2), "{output}");
    let (operator, rest) = output.split_once("--- journal\n").expect("a journal");
    let (journal, errors) = rest.split_once("--- errors\n").expect("errors");
    let told: Vec<&str> = operator.lines().collect();
    let status = format!("StatusText: {name} is healthy on {V2}; ");
    assert!(told[1].starts_with(&status), "{output}");
    assert!(
        told[4].starts_with("StatusText: reload rejected: HEALTH_INTERVAL: \"soon\""),
        "{output}"
    );
    assert_eq!(
        [&told[..1], &told[2..4], &told[5..]].concat(),
        [
            "started: active",
            "reloaded: active",
            "reloaded: active",
            "NRestarts: 1",
            "ActiveState: active",
            "another process",
            "stopped: success inactive",
        ],
        "{output}"
    );
    for line in [
        "replaced; the old container is gone",
        "the new settings are in force",
        "reading the settings again",
        "Watchdog timeout",
        "shutting down; unfinished replacements resume at the next start",
    ] {
        assert!(journal.contains(line), "{line:?} is not in:\n{journal}");
    }
    // It listened twice: once after each of its two starts.
    assert_eq!(journal.matches("status at http").count(), 2, "{journal}");
    // The journal has the right priorities, and the message names the wrong setting.
    assert!(
        errors.contains("reload failed: invalid settings") && errors.contains("HEALTH_INTERVAL"),
        "{output}"
    );
    assert!(!output.contains("hunter2"), "{output}");
}
