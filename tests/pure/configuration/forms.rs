//! The forms of single values: the result, or the reason for refusing them.

use delegate_upgrader::config::{Needs, Settings};

use super::{errors, over_base, settings};

/// Asserts the value that `config` shows, or a part of the line that refuses it.
#[track_caller]
fn assert_forms(variable: &'static str, forms: &[(&str, Result<&str, &str>)]) {
    for (text, expected) in forms {
        match (
            Settings::from_env(over_base(&[(variable, text)]), Needs::All),
            expected,
        ) {
            (Ok(settings), Ok(expected)) => {
                let shown = settings.redacted().iter().find(|(name, _)| *name == variable);
                assert_eq!(shown.unwrap().1, *expected, "{variable}={text}");
            }
            (Err(errors), Err(expected)) => {
                let given = &errors.problems[0].given;
                assert_eq!(errors.problems[0].variable, variable);
                assert!(given.contains(expected), "{variable}={text}: {given}");
            }
            (result, _) => panic!("{variable}={text}: {result:?}"),
        }
    }
}

#[test]
#[rustfmt::skip]
fn a_repository_has_no_scheme_tag_or_digest() {
    assert_forms(
        "IMAGE_REPOSITORY",
        &[
            ("registry.example/team/delegate", Ok("registry.example/team/delegate")),
            ("registry.example:5000/team/", Ok("registry.example:5000/team")),
            ("team/my__delegate", Ok("team/my__delegate")),
            ("delegate", Ok("delegate")),
            ("delegate:1.0", Err("tag")),
            ("corp/delegate:", Err("tag")),
            ("localhost:5000/delegate", Ok("localhost:5000/delegate")),
            ("registry.example:5000/team/delegate:1.0", Err("tag")),
            ("https://registry.example/team", Err("scheme")),
            ("team/delegate@sha256:00", Err("digest")),
            ("registry.example/Team", Err("capital letters")),
            ("registry.example//team", Err("path")),
            ("registry.example:port/team", Err("registry")),
            ("my repository", Err("path")),
            ("team/a..b", Err("its path may have lower-case letters")),
            ("/", Err("path")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn a_mirror_may_be_just_a_registry() {
    assert_forms(
        "REGISTRY_MIRROR",
        &[
            ("registry.example:5000", Ok("registry.example:5000")),
            ("registry.example:5000/mirror/", Ok("registry.example:5000/mirror")),
            ("localhost:5000", Ok("localhost:5000")),
            ("myorg", Ok("myorg")),
            ("10.0.0.1:5000/a", Ok("10.0.0.1:5000/a")),
            ("https://registry.example", Err("scheme")),
            ("registry.example/Team", Err("capital letters")),
            ("MyOrg", Err("capital letters")),
            ("registry.example/mirror:1.0", Err("tag")),
            ("my registry", Err("path")),
            ("my_registry.example", Err("its registry is not a host name")),
            ("/", Err("")),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn the_manager_url_keeps_its_path_and_loses_its_slash() {
    assert_forms(
        "MANAGER_HOST_AND_PORT",
        &[
            ("https://app.harness.io", Ok("https://app.harness.io")),
            ("https://app.harness.io/gratis/", Ok("https://app.harness.io/gratis")),
            ("http://127.0.0.1:8080", Ok("http://127.0.0.1:8080")),
            ("app.harness.io", Ok("https://app.harness.io")),
            ("app.harness.io:8443/gratis", Ok("https://app.harness.io:8443/gratis")),
            ("ftp://host", Err("scheme")),
            ("https://", Err("host")),
            ("https://u:p@host", Err("user or password")),
            ("https://host?x=1", Err("query or fragment")),
            ("https://host:x", Err("port")),
            ("a b", Err("")),
        ],
    );
}

#[test]
fn a_proxy_urls_login_is_decoded_but_stray_percent_signs_stay() {
    for (given, expected) in [
        ("p%40ss%2f", "p@ss/"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("%c3%a9", "é"),
    ] {
        let url = format!("me:{given}@proxy.example:3128");
        let proxy = settings(&[("HTTPS_PROXY", &url)]).egress.proxy.unwrap();
        assert_eq!(proxy.url, "http://proxy.example:3128");
        assert_eq!(proxy.login.unwrap().1.expose(), expected);
    }
}

#[test]
fn a_proxy_host_has_no_port_or_path() {
    assert_forms(
        "PROXY_HOST",
        &[
            ("proxy.example", Ok("proxy.example")),
            ("10.0.0.1", Ok("10.0.0.1")),
            ("[::1]", Ok("[::1]")),
            ("[::1]:3128", Err("more than a host")),
            ("proxy.example:3128", Err("more than a host")),
            ("http://proxy.example:3128", Err("more than a host")),
            ("me@proxy.example", Err("more than a host")),
            ("proxy.example/x", Err("more than a host")),
        ],
    );
}

#[test]
fn durations_have_bounds() {
    assert_forms(
        "CONTAINER_STOP_TIMEOUT",
        &[
            ("5400", Ok("1h30m")),
            ("30d", Ok("30d")),
            ("0", Err("less than 1s")),
            ("31d", Err("more than 30d")),
            ("soon", Err("\"soon\"")),
        ],
    );
    assert_forms("SCHEDULE_JITTER", &[("0", Ok("0s"))]);
    // Unset, it follows the schedule.
    for pair in ["0 * * * *=5m", "0,6 3 * * *=30s", "* * * * * *=0s"] {
        let (schedule, jitter) = pair.split_once('=').unwrap();
        let settings = settings(&[("SCHEDULE", schedule)]);
        let expected = ("SCHEDULE_JITTER", jitter.to_owned());
        assert!(settings.redacted().contains(&expected), "{pair}");
    }
}

#[test]
fn parses_listen_addresses() {
    assert_forms(
        "LISTEN_ADDR",
        &[
            ("localhost:80", Ok("127.0.0.1:80")),
            ("[::]:80", Ok("[::]:80")),
            (":9464", Err("all addresses are 0.0.0.0:9464")),
            ("9464", Err("\"9464\"")),
        ],
    );
}

#[test]
fn reads_keywords_in_any_case() {
    for (variable, words) in [
        ("UPDATE_ORDER", vec!["auto", "start-first", "stop-first"]),
        ("HEALTH_PROBE", vec!["auto", "engine", "http", "exec", "running"]),
        ("HEALTH_ACTION", vec!["report", "restart"]),
        ("LOG_LEVEL", vec!["error", "warn", "info", "debug", "trace"]),
        ("LOG_FORMAT", vec!["text", "json"]),
        ("WEBHOOK_FORMAT", vec!["cloudevents", "slack", "teams"]),
    ] {
        for word in words {
            assert_forms(variable, &[(word, Ok(word)), (&word.to_uppercase(), Ok(word))]);
        }
    }
    assert_forms("LOG_LEVEL", &[("warning", Ok("warn")), ("", Ok("info"))]);
}

#[test]
fn recognises_misspelt_name() {
    for (name, expected) in [
        ("SCHEDULLE", Some("SCHEDULE")),
        ("SCHEUDLE", Some("SCHEDULE")),
        ("schedule", Some("SCHEDULE")),
        ("UPGRADER_WORKLOADNAME", Some("UPGRADER_WORKLOAD_NAME")),
        ("UPGRADER_WORKLOAD_NAMES", Some("UPGRADER_WORKLOAD_NAME")),
        ("MANAGER_HOST_AND_PROT", Some("MANAGER_HOST_AND_PORT")),
        ("CONTAINER_STOP_TIMOUT", Some("CONTAINER_STOP_TIMEOUT")),
        ("LOGLEVEL", Some("LOG_LEVEL")),
        ("ALL_PROXY", None),
        ("all_proxy", None),
        ("HOSTNAME", None),
        ("HOMES", None),
        ("DELEGATE_NAME", None),
        ("DELEGATE_TOKEN", None),
        ("MY_PROXY", None),
    ] {
        // The intended variable must be unset: only then is the name likely a slip.
        let unset = expected.unwrap_or("LOG_FORMAT");
        let warnings = match Settings::from_env(over_base(&[(unset, ""), (name, "x")]), Needs::All) {
            Ok(settings) => settings.warnings,
            Err(errors) => errors.warnings,
        };
        let line = expected.map(|meant| format!("{name}: unknown variable; did you mean {meant}?"));
        assert_eq!(warnings, Vec::from_iter(line), "{name}");
    }
    for (name, hint) in [
        ("UPGRADER_SCHEDULE", "unknown variable; use SCHEDULE"),
        ("watchtower_poll_interval", "unknown variable; use SCHEDULE"),
        ("REGISTRY_USER", "unknown variable; use REGISTRY_USERNAME"),
        ("UPGRADER_COLOUR", "unknown variable, so it has no effect"),
        ("HARNESS_COLOUR", "unknown variable, so it has no effect"),
        ("HARNESS_TOKEN", "unknown variable; use UPGRADER_TOKEN"),
        (
            "DOCKER_CONTEXT",
            "unknown variable; use DOCKER_HOST with the address that `docker context inspect` shows",
        ),
        (
            "DOCKER_API_VERSION",
            "unknown variable; use none, since the newest version that both know is spoken",
        ),
        (
            "SLACK_WEBHOOK_URL",
            "unknown variable; use WEBHOOK_URL with WEBHOOK_FORMAT=slack",
        ),
        (
            "WATCHTOWER_NOTIFICATIONS_LEVEL",
            "unknown variable; use WEBHOOK_URL",
        ),
    ] {
        let warnings = settings(&[(name, "x")]).warnings;
        assert_eq!(warnings, [format!("{name}: {hint}")]);
    }
    for (gone, instead) in [
        ("AUDIT_LOG_MAX_FILES", "`rotate` of logrotate"),
        ("AUDIT_LOG_MAX_SIZE", "`size` of logrotate"),
        (
            "DOCKER_AUTH_CONFIG",
            "DOCKER_CONFIG, the directory of a config.json, or REGISTRY_USERNAME and REGISTRY_PASSWORD",
        ),
        ("HEALTH_PATH", "HEALTH_PROBE=exec with a HEALTH_COMMAND"),
        ("HEALTHY_DEADLINE", "UPGRADE_HEALTHY_DEADLINE"),
        ("HEALTHY_TIME", "UPGRADE_HEALTHY_TIME"),
        ("IDLE_WAIT", "UPGRADE_IDLE_WAIT"),
        ("SELF_IMAGE", "SELF_UPGRADE=IMAGE"),
        ("UPGRADE_STRATEGY", "UPDATE_ORDER"),
    ] {
        let line = format!("{gone}: no longer a setting, so it has no effect; use {instead}");
        assert_eq!(settings(&[(gone, "x")]).warnings, [line]);
    }
    for (delay, warning) in [("0", None), ("3600s", None), ("3", Some("for days write 3d"))] {
        let line = warning.map(|it| format!("UPGRADE_DELAY: a number alone is seconds; {it}"));
        assert_eq!(
            settings(&[("UPGRADE_DELAY", delay)]).warnings,
            Vec::from_iter(line)
        );
    }
    let warnings = settings(&[("OTEL_SERVICE_NAME", "x"), ("OTEL_LOGS_EXPORTER", "y")]).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warnings = errors(&[("UPGRADER_TOKEN", ""), ("DELEGATE_TOKEN", "x")]).warnings;
    assert_eq!(warnings, ["DELEGATE_TOKEN: unknown variable; use UPGRADER_TOKEN"]);
    // Kubernetes and Docker set such variables, and some images.
    for name in [
        "UPGRADER_SERVICE_HOST",
        "HARNESS_MANAGER_PORT_80_TCP",
        "DOCKER_VERSION",
        "HOSTNAME",
        "container",
    ] {
        assert_eq!(settings(&[(name, "10.0.0.1")]).warnings, [""; 0], "{name}");
    }
}

#[test]
fn versions_have_a_two_digit_year_and_a_month() {
    let wrong = ["2026.02", "26.13", "26.00", "0.0"];
    assert_forms("MAX_VERSION", &wrong.map(|text| (text, Err(text))));
}

#[test]
fn warns_about_engine_reachable_without_tls() {
    for (host, warns) in [
        ("tcp://10.0.0.1:2375", true),
        ("tcp://[2001:db8::1]", true),
        ("tcp://docker.example:2375", true),
        ("tcp://127.0.0.1:2375", false),
        ("tcp://[::1]:2375", false),
        ("tcp://socket-proxy:2375", false),
        ("unix:///run/docker.sock", false),
    ] {
        let warnings = settings(&[("DOCKER_HOST", host)]).warnings;
        let is_of_it = |warning: &String| warning.starts_with("DOCKER_HOST: without TLS");
        assert_eq!(warnings.iter().any(is_of_it), warns, "{host}");
    }
}

#[test]
fn masks_credentials_in_an_invalid_value() {
    for (value, masked) in [
        ("https://user:pass@host/path", "https://***@host/path"),
        ("https://user:p@ss/w@host", "https://***@host"),
        ("user:pass@host:3128", "***@host:3128"),
        ("https://token@host", "https://***@host"),
        ("https://host/path", "https://host/path"),
        ("@hourly", "@hourly"),
        ("harness/delegate@sha256:00", "harness/delegate@sha256:00"),
    ] {
        let line = errors(&[("LOG_LEVEL", value)]).to_string();
        assert!(line.starts_with(&format!("LOG_LEVEL: {masked:?};")), "{line}");
    }
}

#[test]
fn status_hosts_are_host_names_only() {
    assert_forms(
        "STATUS_HOSTS",
        &[
            ("a.example", Ok("a.example")),
            ("a.example ,b.example,a.example", Ok("a.example,b.example")),
            ("a.example:9464", Err("it has more than a host")),
            ("http://a.example", Err("it has more than a host")),
            ("*.example,*.a.example", Ok("*.example,*.a.example")),
            (".example", Err("write *.example for all names of a domain")),
            ("a.*.example", Err("only the first part of a name can be *")),
            ("*", Err("only the first part of a name can be *")),
            (",", Err("it has no name")),
        ],
    );
}

#[test]
fn health_command_runs_in_a_shell_or_directly() {
    for (text, command) in [
        ("/probe --quick", vec!["/bin/sh", "-c", "/probe --quick"]),
        (r#"["/probe", "--quick"]"#, vec!["/probe", "--quick"]),
    ] {
        let settings = settings(&[("HEALTH_PROBE", "exec"), ("HEALTH_COMMAND", text)]);
        assert_eq!(settings.health.command, command);
        assert_eq!(settings.warnings, Vec::<String>::new());
        assert!(settings.redacted().contains(&("HEALTH_COMMAND", text.to_owned())));
    }
}

#[test]
fn warns_about_health_settings_that_the_probe_ignores() {
    let http = settings(&[("HEALTH_PROBE", "http"), ("HEALTH_COMMAND", "true")]);
    assert_eq!(
        http.warnings,
        ["HEALTH_COMMAND: not used without HEALTH_PROBE=exec or auto"]
    );
    // A candidate may need the command.
    assert!(settings(&[("HEALTH_COMMAND", "true")]).warnings.is_empty());
}
