//! The examples for many hosts are readable, and their settings are valid.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use granit_parser::{Event, Parser};

/// The values of a YAML file, in its order.
fn values(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file);
    let text = fs::read_to_string(path).unwrap();
    let events = Parser::new_from_str(&text).map(|event| event.unwrap().0);
    events
        .filter_map(|event| match event {
            Event::Scalar(value, ..) => Some(value.into_owned()),
            _ => None,
        })
        .collect()
}

/// The settings file that an example writes, with values for the parts that its user fills in.
#[rustfmt::skip]
fn settings(file: &str) -> String {
    let values = values(file);
    let found = values.into_iter().find(|value| value.starts_with("ACCOUNT_ID="));
    let mut text = found.unwrap();
    for (given, value) in [
        ("{{ account_id }}", "demo"),
        ("{{ upgrader_token }}", "000102030405060708090a0b0c0d0e0f"),
        ("{{ upgrade_delay }}", "2d"),
        ("{{ '' if 'canary' in group_names else 'auto' }}", "auto"),
        ("{{ webhook_url | default('') }}", ""),
        ("ACCOUNT_ID=\n", "ACCOUNT_ID=demo\n"),
        ("UPGRADER_TOKEN=\n", "UPGRADER_TOKEN=000102030405060708090a0b0c0d0e0f\n"),
    ] {
        text = text.replace(given, value);
    }
    assert!(!text.contains("{{"), "{text}");
    text
}

#[test]
fn example_settings_are_valid() {
    for example in ["ansible/playbook.yml", "cloud-init.yaml"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("settings.env");
        fs::write(&file, settings(example)).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"))
            .arg("config")
            .arg("--env-file")
            .arg(&file)
            .env_clear()
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert_eq!(ran.status.code(), Some(0), "{example}: {printed}");
        assert!(!printed.contains("unknown variable"), "{example}: {printed}");
        for line in ["UPGRADE_DELAY=2d", "UPGRADE_WAVE=auto", "SCHEDULE_JITTER=10m"] {
            assert!(
                printed.lines().any(|printed| printed == line),
                "{example}: {line}"
            );
        }
    }
}

#[test]
fn the_playbook_uses_only_modules_that_come_with_ansible() {
    let values = values("ansible/playbook.yml");
    let modules = values.iter().filter(|value| value.contains(".builtin."));
    assert!(modules.count() >= 5);
    let others = values.iter().filter(|value| {
        let parts: Vec<&str> = value.split('.').collect();
        let is_name = |part: &&str| part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        parts.len() == 3 && parts.iter().all(is_name) && parts[1] != "builtin"
    });
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn cloud_init_runs_without_root_and_reads_its_file() {
    let values = values("cloud-init.yaml");
    let run = values
        .iter()
        .find(|value| value.starts_with("docker run "))
        .unwrap();
    assert!(!run.contains('\n'), "{run}");
    for option in [
        "--user 65532:65532",
        "--read-only",
        "--cap-drop ALL",
        "--restart unless-stopped",
        "--publish 127.0.0.1:9464:9464",
    ] {
        assert!(run.contains(option), "{option}");
    }
    let file = values
        .iter()
        .find(|value| value.ends_with("delegate-upgrader.env"));
    assert!(run.contains(&format!("ENVIRONMENT_FILE={}", file.unwrap())));
}
