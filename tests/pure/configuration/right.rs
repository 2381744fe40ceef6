//! The settings that right environments lead to.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use delegate_upgrader::config::{self, AuditTarget, Preset, ProbeKind, Source, UpdateOrder};
use delegate_upgrader::engine::EngineHost;
use delegate_upgrader::text::secret::Secret;

use super::certificates::docker_certificates;
use super::{KEY, PASSWORD, TOKEN, TOKEN_BASE64, assert_no_secret, errors, settings};

#[test]
fn the_documented_command_gives_the_documented_defaults() {
    let settings = settings(&[]);
    let Source::Manager(manager) = &settings.source else {
        panic!("{:?}", settings.source)
    };
    assert_eq!(manager.account_id, "acct-TEST_000000000000");
    assert_eq!(manager.base_url, "https://app.harness.io");
    assert_eq!(manager.token.key(), &KEY);
    assert_eq!(settings.workload_names, ["docker-delegate"]);
    assert_eq!(settings.stop_timeout, Duration::from_secs(3600));
    assert!(!settings.run_on_start && !settings.policy.health_only);
    assert_eq!(settings.policy.update_order, UpdateOrder::Auto);
    assert_eq!(settings.policy.healthy_time, Duration::from_secs(60));
    assert_eq!(settings.policy.healthy_deadline, Duration::from_secs(600));
    assert_eq!(settings.health.interval, Duration::from_secs(60));
    assert_eq!(settings.health.probe, ProbeKind::Auto);
    assert_eq!(
        settings.engine,
        EngineHost::Unix(PathBuf::from("/var/run/docker.sock"))
    );
    assert!(settings.credentials.own.is_none() && settings.egress.proxy.is_none());
    assert_eq!(settings.warnings, Vec::<String>::new());
}

#[test]
fn empty_and_blank_variables_are_unset() {
    let settings = settings(&[
        ("SCHEDULE", ""),
        ("HEALTH_PORT", " "),
        ("REGISTRY_PASSWORD", ""),
        ("DOCKER_HOST", ""),
        ("LOG_LEVEL", ""),
        ("PUBLISHED_IMAGE", ""),
    ]);
    assert_eq!(settings.schedule.as_str(), "0 */1 * * *");
    assert_eq!(settings.health.port, 3460);
    assert!(matches!(settings.source, Source::Manager(_)));
}

#[test]
fn the_audit_log_can_be_turned_off() {
    assert_eq!(settings(&[("AUDIT_LOG", "off")]).audit, AuditTarget::Off);
}

#[test]
fn every_accepted_form_is_read() {
    let settings = settings(&[
        ("UPGRADER_TOKEN", TOKEN_BASE64),
        ("UPGRADER_WORKLOAD_NAME", "a, b ,a,,c"),
        ("SCHEDULE", "\"@every 15m\""),
        ("TZ", ":/usr/share/zoneinfo/europe/berlin"),
        ("SCHEDULE_JITTER", "90"),
        ("RUN_ON_START", "YES"),
        ("CONTAINER_STOP_TIMEOUT", "1h30m"),
        ("IMAGE_REPOSITORY", "registry.example:5000/team/delegate"),
        ("UPDATE_ORDER", "Stop-First"),
        ("HEALTH_PROBE", "running"),
        ("HEALTH_ACTION", "restart"),
        ("REGISTRY_USERNAME", "me"),
        ("REGISTRY_PASSWORD", PASSWORD),
        ("https_proxy", "me:p%40ss@proxy.example:3128"),
        ("NO_PROXY", "localhost,.example"),
        ("LISTEN_ADDR", "[::]:80"),
        ("STATUS_HOSTS", "upgrader.example.com, Other.example"),
        ("LOG_LEVEL", "WARNING"),
        ("LOG_FORMAT", "json"),
        ("DOCKER_HOST", "tcp://10.0.0.1"),
    ]);
    let Source::Manager(manager) = &settings.source else {
        panic!("{:?}", settings.source)
    };
    assert_eq!(manager.token.key(), &KEY);
    assert_eq!(settings.workload_names, ["a", "b", "c"]);
    assert_eq!(settings.schedule.as_str(), "@every 15m");
    assert_eq!(settings.schedule.zone().name(), "Europe/Berlin");
    assert_eq!(settings.schedule_jitter, Duration::from_secs(90));
    assert!(settings.run_on_start);
    assert_eq!(settings.stop_timeout, Duration::from_secs(5400));
    assert_eq!(
        settings.target.image_repository.as_deref(),
        Some("registry.example:5000/team/delegate")
    );
    assert_eq!(settings.policy.update_order, UpdateOrder::StopFirst);
    assert_eq!(settings.health.probe, ProbeKind::Running);
    assert!(settings.policy.restarts_unhealthy);
    assert_eq!(
        settings.credentials.own.as_ref().unwrap().password.expose(),
        PASSWORD
    );
    let proxy = settings.egress.proxy.as_ref().unwrap();
    assert_eq!(proxy.url, "http://proxy.example:3128");
    assert_eq!(proxy.login, Some(("me".to_owned(), Secret::new("p@ss"))));
    assert_eq!(settings.status_hosts, ["upgrader.example.com", "Other.example"]);
    assert_eq!(settings.log.level, tracing::level_filters::LevelFilter::WARN);
    assert_eq!(
        settings.engine,
        EngineHost::Tcp {
            address: "10.0.0.1:2375".to_owned(),
            tls: None
        }
    );
    assert!(
        settings
            .warnings
            .iter()
            .any(|line| line.starts_with("SCHEDULE: ignoring the quotes")),
        "{settings:?}"
    );

    let shown = format!("{settings:?} {settings:#?} {:?}", settings.redacted());
    assert_no_secret("the settings", &shown);
    assert!(!shown.contains("p@ss") && !shown.contains("p%40ss"), "{shown}");
    // The key must not show as numbers either.
    assert!(!shown.contains("[0, 1, 2, 3"), "{shown}");
}

#[test]
fn builds_proxy_from_its_parts() {
    let settings = settings(&[
        ("PROXY_SCHEME", "http"),
        ("PROXY_HOST", "proxy.example"),
        ("PROXY_PORT", "3128"),
        ("PROXY_USER", "me"),
        ("PROXY_PASSWORD", PASSWORD),
        ("HTTPS_PROXY", "http://other.example"),
    ]);
    let around = super::settings(&[("PROXY_HOST", "proxy.example"), ("PROXY_MANAGER", "false")]);
    assert_eq!(around.egress.proxy, None);
    let proxy = settings.egress.proxy.as_ref().unwrap();
    assert_eq!(proxy.url, "http://proxy.example:3128");
    assert_eq!(proxy.login.as_ref().unwrap().1.expose(), PASSWORD);
    assert_eq!(
        settings.warnings,
        ["HTTPS_PROXY: not used, since PROXY_HOST is set"]
    );
}

#[test]
#[rustfmt::skip]
fn one_proxy_serves_all_addresses_unless_no_proxy_excludes_all() {
    let proxy = "http://proxy.example";
    for (given, expected, warning) in [
        (vec![("HTTPS_PROXY", proxy)], Some(proxy), None),
        (vec![("HTTPS_PROXY", proxy), ("NO_PROXY", "*")], None, None),
        (vec![("HTTPS_PROXY", proxy), ("HTTP_PROXY", "http://x")], Some(proxy), None),
        (vec![("http_proxy", proxy)], None, Some("http_proxy: unknown variable; did you mean HTTPS_PROXY?")),
    ] {
        let settings = settings(&given);
        let proxy = settings.egress.proxy.map(|proxy| proxy.url);
        assert_eq!(proxy.as_deref(), expected, "{given:?}");
        assert_eq!(settings.warnings, Vec::from_iter(warning), "{given:?}");
    }
}

#[test]
fn secrets_are_read_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let token = file("token", &format!("{TOKEN_BASE64}\n"));
    let password = file("password", " blanks may be meant \n");
    let read = settings(&[
        ("UPGRADER_TOKEN", ""),
        ("UPGRADER_TOKEN_FILE", &token),
        ("REGISTRY_USERNAME", "me"),
        ("REGISTRY_PASSWORD_FILE", &password),
    ]);
    let Source::Manager(manager) = &read.source else {
        panic!("{:?}", read.source)
    };
    assert_eq!(manager.token.key(), &KEY);
    let shown = ("REGISTRY_PASSWORD", format!("(in {password})"));
    assert!(read.redacted().contains(&shown), "{:?}", read.redacted());
    assert_eq!(
        read.credentials.own.unwrap().password.expose(),
        " blanks may be meant "
    );

    let wrong = file("wrong", "not-a-token-but-secret");
    let empty = file("empty", "\n");
    for (path, says) in [(&wrong, "is not a token"), (&empty, "the file is empty")] {
        let text = errors(&[("UPGRADER_TOKEN", ""), ("UPGRADER_TOKEN_FILE", path)]).to_string();
        assert!(
            text.starts_with("UPGRADER_TOKEN_FILE: ") && text.contains(says),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_no_secret("the message", &text);
    }
}

#[test]
fn without_a_manager_requires_a_fixed_image_or_upgrades_turned_off() {
    let no_manager: [(&str, &str); 3] = [
        ("ACCOUNT_ID", ""),
        ("MANAGER_HOST_AND_PORT", ""),
        ("UPGRADER_TOKEN", ""),
    ];

    let with = |extra: (&'static str, &'static str)| [no_manager.as_slice(), &[extra]].concat();
    let fixed = settings(&with(("PUBLISHED_IMAGE", "harness/delegate:26.03.88501")));
    let Source::Fixed(image) = &fixed.source else {
        panic!("{:?}", fixed.source)
    };
    assert!(
        image.to_string().ends_with("harness/delegate:26.03.88501"),
        "{image}"
    );
    assert_eq!(fixed.warnings, Vec::<String>::new());

    let health_only = settings(&with(("DISABLE_AUTO_UPGRADE", "true")));
    assert!(matches!(health_only.source, Source::None));

    // With both, the image wins, and a warning says so.
    let both = settings(&[("PUBLISHED_IMAGE", "harness/delegate:26.03.88501")]);
    assert!(matches!(both.source, Source::Fixed(_)));
    assert!(
        both.warnings[0].starts_with("PUBLISHED_IMAGE: "),
        "{:?}",
        both.warnings
    );

    // Health-only mode with a Manager still asks it.
    assert!(matches!(
        settings(&[("DISABLE_AUTO_UPGRADE", "1")]).source,
        Source::Manager(_)
    ));
}

#[test]
#[rustfmt::skip]
fn finds_engine_as_docker_clients_do() {
    let directory = tempfile::tempdir().unwrap();
    let certificates = directory.path().to_str().unwrap();
    docker_certificates(directory.path());
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".docker")).unwrap();
    docker_certificates(&home.path().join(".docker"));
    let unix = |path: &str| EngineHost::Unix(path.into());
    let tcp = |address: &str, tls: Option<PathBuf>| EngineHost::Tcp {
        address: address.to_owned(),
        tls,
    };
    let given = || Some(PathBuf::from(certificates));
    let of_home = Some(home.path().join(".docker"));
    for (given, expected) in [
        ("DOCKER_TLS_VERIFY=1", unix("/var/run/docker.sock")),
        ("DOCKER_HOST=unix:///tmp/my.sock", unix("/tmp/my.sock")),
        ("DOCKER_HOST=tcp://host:1234", tcp("host:1234", None)),
        ("DOCKER_HOST=http://host", tcp("host:2375", None)),
        ("DOCKER_HOST=tcp://[::1]:2375/", tcp("[::1]:2375", None)),
        ("DOCKER_HOST=tcp://host DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH={}", tcp("host:2376", given())),
        ("DOCKER_HOST=tcp://host:2375 DOCKER_CERT_PATH={}", tcp("host:2375", given())),
        ("DOCKER_HOST=tcp://host DOCKER_TLS_VERIFY=1 HOME={home}", tcp("host:2376", of_home)),
    ] {
        let given = given
            .replace("{}", certificates)
            .replace("{home}", home.path().to_str().unwrap());
        let vars: Vec<_> = given.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        assert_eq!(settings(&vars).engine, expected, "{given}");
    }
}

#[test]
fn odd_schedules_produce_a_warning() {
    let warnings = settings(&[("SCHEDULE", "0 */15 * * *")]).warnings;
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("SCHEDULE: "),
        "{warnings:?}"
    );
    // Between two runs, the Manager is still asked.
    for window in [("SCHEDULE", "0 22 * * *"), ("SCHEDULE_JITTER", "45m")] {
        assert_eq!(settings(&[window]).warnings, Vec::<String>::new());
    }

    let warnings = settings(&[("MANAGER_HOST_AND_PORT", "app.harness.io")]).warnings;
    assert_eq!(
        warnings,
        ["MANAGER_HOST_AND_PORT: it has no scheme; using https://app.harness.io"]
    );
}

#[test]
fn the_redacted_settings_show_the_values_in_effect() {
    let settings = settings(&[
        ("MAX_VERSION", "26.3"),
        ("UPGRADE_WINDOW", " Mon-Fri 02:00-05:00 "),
        ("UPGRADE_DELAY", "72h"),
        ("UPGRADE_WAVE", " 12.50 % "),
        ("CONTAINER_STOP_TIMEOUT", "5400"),
        ("MANAGER_HOST_AND_PORT", "https://app.harness.io/"),
        ("HTTPS_PROXY", "http://me:hunter2-hunter2@proxy.example:3128"),
        // This is not read if the engine is reached without TLS.
        ("DOCKER_TLS_VERIFY", "1"),
        ("REGISTRY_USERNAME", "me"),
        ("REGISTRY_PASSWORD", PASSWORD),
        ("HOME", "/home/me"),
    ]);
    let given = BTreeMap::from([
        ("ACCOUNT_ID", "acct-TEST_000000000000"),
        ("MANAGER_HOST_AND_PORT", "https://app.harness.io"),
        ("UPGRADER_TOKEN", "(set)"),
        ("UPGRADER_WORKLOAD_NAME", "docker-delegate"),
        ("SCHEDULE", "0 */1 * * *"),
        ("TZ", "UTC"),
        ("SCHEDULE_JITTER", "5m"),
        ("UPGRADE_WINDOW", "Mon-Fri 02:00-05:00"),
        ("UPGRADE_DELAY", "3d"),
        ("UPGRADE_WAVE", "12.5%"),
        ("CONTAINER_STOP_TIMEOUT", "1h30m"),
        ("MAX_VERSION", "26.03"),
        ("REGISTRY_USERNAME", "me"),
        ("REGISTRY_PASSWORD", "(set)"),
        ("DOCKER_CONFIG", "/home/me/.docker"),
        ("HTTPS_PROXY", "http://***@proxy.example:3128"),
        ("DOCKER_TLS_VERIFY", "(not used)"),
    ]);
    for (row, (name, value)) in config::variables().zip(settings.redacted()) {
        let default = match row.default {
            Preset::Value(text) => text,
            _ => "(unset)",
        };
        let expected = given.get(row.name).copied().unwrap_or(default);
        assert_eq!((*name, value.as_str()), (row.name, expected));
    }
}

#[test]
fn hides_token_that_is_also_in_another_variable() {
    let redacted = settings(&[("ACCOUNT_ID", TOKEN), ("REGISTRY_MIRROR", TOKEN)])
        .redacted()
        .to_vec();
    assert_no_secret("config", &format!("{redacted:?}"));
    assert!(redacted.contains(&("ACCOUNT_ID", "***".to_owned())));
}

#[test]
fn settings_hash_covers_config_output() {
    let hash = |vars| settings(vars).hash();
    let base = hash(&[]);
    assert!(base > 0 && base < 1 << 48, "{base}");
    assert_eq!(base, hash(&[("PATH", "/bin")]), "not a setting");
    assert_eq!(base, hash(&[("UPGRADER_TOKEN", TOKEN_BASE64)]), "a secret");
    let proxied = |password| {
        let proxy = format!("http://me:{password}@proxy.example:3128");
        settings(&[("HTTPS_PROXY", &proxy)]).hash()
    };
    assert_eq!(proxied("one"), proxied("two"), "a secret in a URL");
    assert_ne!(base, hash(&[("SCHEDULE", "@daily")]));
    assert_ne!(base, hash(&[("REGISTRY_MIRROR", "registry.example")]));
}

#[test]
fn variables_from_a_file_override_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("environment");
    std::fs::write(
        &file,
        "# for systemd, too\nUPGRADE_HEALTHY_TIME=25s\nUPGRADE_HEALTHY_TIME=\"30s\"\nUPGRADER_TOKEN=\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let settings = settings(&[("ENVIRONMENT_FILE", path), ("UPGRADE_HEALTHY_TIME", "20s")]);
    assert_eq!(settings.policy.healthy_time.as_secs(), 30);
    let shown = settings.redacted();
    assert!(
        shown.contains(&("ENVIRONMENT_FILE", path.to_owned())),
        "{shown:?}"
    );
}

#[test]
fn reads_systemd_credential_without_a_variable() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    std::fs::write(directory.path().join("upgrader-token"), format!("{TOKEN}\n")).unwrap();
    for name in ["registry-password", "proxy-password"] {
        std::fs::write(directory.path().join(name), PASSWORD).unwrap();
    }
    let of_systemd = ("CREDENTIALS_DIRECTORY", path);
    let settings = settings(&[
        of_systemd,
        ("UPGRADER_TOKEN", ""),
        ("REGISTRY_USERNAME", "robot"),
        ("PROXY_HOST", "proxy.example"),
        ("PROXY_USER", "robot"),
    ]);
    let proxy = settings.egress.proxy.clone().unwrap();
    for password in [
        proxy.login.unwrap().1,
        settings.credentials.own.clone().unwrap().password,
    ] {
        assert_eq!(password.expose(), PASSWORD);
    }
    assert!(matches!(settings.source, Source::Manager(_)));
    assert_no_secret("config", &format!("{:?}", settings.redacted()));
    // The variable wins over systemd's file.
    let errors = errors(&[of_systemd, ("UPGRADER_TOKEN", "ffff")]);
    assert!(errors.to_string().contains("UPGRADER_TOKEN"), "{errors}");
}
