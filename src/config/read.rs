//! The variables' texts → [`Settings`]: what stands alone is read here, what belongs together next door.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use chrono_tz::Tz;

use super::environment::{Environment, Variable};
use super::problems::Problems;
use super::{
    ACTIONS, ConfigErrors, FORMATS, HealthAction, HealthSettings, LEVELS, LogFormat, LogLevel, LogSettings,
    PROBES, ProbeKind, STRATEGIES, Settings, connections, values,
};
use crate::image::{ImagePolicy, MaxVersion, TargetSettings, check_mirror, check_repository};
use crate::schedule::{self, Schedule};
use crate::text::duration;

/// Checks every variable, whatever is wrong with the others.
pub(super) fn settings(env: &Environment, mut findings: Problems) -> Result<Settings, ConfigErrors> {
    let found = &mut findings;
    let disable_auto_upgrade = read_bool(found, &env.disable_auto_upgrade);
    let source = connections::source(found, env, disable_auto_upgrade);
    let workload_names = found.read(
        &env.upgrader_workload_name,
        "a DELEGATE_NAME, or several with commas",
        values::names,
    );
    if workload_names.is_none() {
        found.missing(
            &env.upgrader_workload_name,
            "the DELEGATE_NAME of the delegates to look after",
        );
    }
    let schedule_jitter = read_duration(found, &env.schedule_jitter, Duration::ZERO, 0);
    let schedule = read_schedule(found, env);
    let run_on_start = read_bool(found, &env.run_on_start);
    let stop_timeout = read_duration(found, &env.container_stop_timeout, Duration::from_secs(3600), 1);
    let target = read_target(found, env);
    let strategy = found
        .read(&env.upgrade_strategy, "auto, start-first or stop-first", |text| {
            values::word(text, &STRATEGIES)
        })
        .unwrap_or_default();
    let healthy_time = read_duration(found, &env.healthy_time, Duration::from_secs(60), 1);
    let healthy_deadline = read_duration(found, &env.healthy_deadline, Duration::from_secs(600), 1);
    check_deadline(found, env, healthy_time, healthy_deadline);
    let health = read_health(found, env, disable_auto_upgrade);
    let registry = connections::registry(found, env);
    let egress = connections::egress(found, env, source.as_ref());
    let listen = read_listen(found, env);
    let webhook_url = connections::webhook(found, env);
    let log = read_log(found, env);
    let engine = connections::engine(found, env);
    warn_of_later_settings(found, env);

    let secrets: Vec<&str> = env.secrets();
    match (findings.finish(&secrets), source, workload_names, schedule) {
        ((warnings, None), Some(source), Some(workload_names), Some(schedule)) => Ok(Settings {
            source,
            workload_names,
            schedule,
            schedule_jitter,
            run_on_start,
            stop_timeout,
            disable_auto_upgrade,
            target,
            strategy,
            healthy_time,
            healthy_deadline,
            health,
            registry,
            docker_config: connections::docker_config(env),
            egress,
            listen,
            webhook_url,
            audit_log: env.audit_log.get().map(PathBuf::from),
            log,
            engine,
            warnings,
        }),
        // What is missing left its problem behind.
        ((_, errors), ..) => Err(errors.unwrap_or_default()),
    }
}

fn read_bool(found: &mut Problems, variable: &Variable) -> bool {
    found
        .read(variable, values::BOOL, values::boolean)
        .unwrap_or(false)
}

fn read_duration(
    found: &mut Problems,
    variable: &Variable,
    default: Duration,
    least_seconds: u64,
) -> Duration {
    let least = Duration::from_secs(least_seconds);
    let accepted = match least_seconds {
        0 => "seconds, or a duration such as 45m or 1h30m".to_owned(),
        _ => format!(
            "seconds, or a duration such as 45m or 1h30m, {} or more",
            duration::text(least)
        ),
    };
    found
        .read(variable, &accepted, |text| values::duration(text, least))
        .unwrap_or(default)
}

fn read_schedule(found: &mut Problems, env: &Environment) -> Option<Schedule> {
    const DEFAULT: &str = "0 */1 * * *";
    let zone = match env.tz.get() {
        // A wrong zone is a problem; the schedule is checked all the same.
        Some(_) => found.read(
            &env.tz,
            "an IANA time zone such as Europe/Berlin or UTC",
            time_zone,
        ),
        // None in a container without /etc/localtime.
        None => iana_time_zone::get_timezone()
            .ok()
            .and_then(|name| name.parse().ok()),
    };
    let zone = zone.unwrap_or(Tz::UTC);
    let schedule = if env.schedule.is_set() {
        found.read(&env.schedule, schedule::ACCEPTED, |text| {
            Schedule::parse(text, zone).map_err(|error| error.to_string())
        })?
    } else {
        Schedule::parse(DEFAULT, zone).ok()?
    };
    for warning in schedule.warnings() {
        found.warn(&env.schedule, warning);
    }
    Some(schedule)
}

/// `TZ` as the C library reads it may begin with a colon; the names are not case-sensitive here.
fn time_zone(text: &str) -> Result<Tz, String> {
    let name = text.strip_prefix(':').unwrap_or(text);
    chrono_tz::TZ_VARIANTS
        .iter()
        .find(|zone| zone.name().eq_ignore_ascii_case(name))
        .copied()
        .ok_or_else(String::new)
}

/// Of all variables only the address matters, and of all problems only those with it.
pub(super) fn listen_alone(env: &Environment, mut findings: Problems) -> Result<SocketAddr, ConfigErrors> {
    let listen = read_listen(&mut findings, env);
    if !findings.names(&env.listen_addr) {
        return Ok(listen);
    }
    let (_, errors) = findings.finish(&[]);
    Err(errors.unwrap_or_default())
}

fn read_listen(found: &mut Problems, env: &Environment) -> SocketAddr {
    found
        .read(
            &env.listen_addr,
            "an address and port such as 127.0.0.1:9464",
            values::listen_address,
        )
        .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)))
}

fn read_target(found: &mut Problems, env: &Environment) -> TargetSettings {
    let registry_mirror = found.read(&env.registry_mirror, values::REPOSITORY, |text| {
        let mirror = values::repository(text, true)?;
        check_mirror(&mirror).map_err(|error| error.problem().to_string())?;
        Ok(mirror)
    });
    let image_repository = found.read(&env.image_repository, values::REPOSITORY, |text| {
        let repository = values::repository(text, false)?;
        check_repository(&repository).map_err(|error| error.problem().to_string())?;
        Ok(repository)
    });
    if registry_mirror.is_some() && image_repository.is_some() {
        found.warn(
            &env.registry_mirror,
            "not used, IMAGE_REPOSITORY says where images come from",
        );
    }
    let max_version = found.read(
        &env.max_version,
        "a month or a version of the delegate such as 26.03 or 26.03.88501",
        |text| text.parse::<MaxVersion>().map_err(|()| String::new()),
    );
    TargetSettings {
        registry_mirror,
        image_repository,
        pins: ImagePolicy {
            require_digest: read_bool(found, &env.require_digest),
            max_version,
        },
    }
}

fn check_deadline(found: &mut Problems, env: &Environment, time: Duration, deadline: Duration) {
    let both_read = !found.names(&env.healthy_time) && !found.names(&env.healthy_deadline);
    if both_read && deadline <= time {
        // The variable that was given is the one to change.
        let variable = if env.healthy_deadline.is_set() {
            &env.healthy_deadline
        } else {
            &env.healthy_time
        };
        found.problem(
            variable,
            format!(
                "HEALTHY_DEADLINE is {}, HEALTHY_TIME {}",
                duration::text(deadline),
                duration::text(time)
            ),
            "a HEALTHY_DEADLINE that is longer than HEALTHY_TIME",
        );
    }
}

fn read_health(found: &mut Problems, env: &Environment, health_only: bool) -> HealthSettings {
    let mut health = HealthSettings {
        interval: read_duration(found, &env.health_interval, Duration::from_secs(60), 1),
        probe: found
            .read(&env.health_probe, "auto, engine, http, running or exec", |text| {
                values::word(text, &PROBES)
            })
            .unwrap_or(ProbeKind::Auto),
        port: found
            .read(&env.health_port, "a port, 1 to 65535", values::port)
            .unwrap_or(3460),
        path: found
            .read(
                &env.health_path,
                "a path that begins with a slash, such as /api/health",
                values::url_path,
            )
            .unwrap_or_else(|| "/api/health".to_owned()),
        action: found
            .read(&env.health_action, "report or restart", |text| {
                values::word(text, &ACTIONS)
            })
            .unwrap_or(HealthAction::Report),
    };
    if health_only {
        let instead =
            |word| format!("{word} instead, since DISABLE_AUTO_UPGRADE lets no write reach the engine");
        if health.probe == ProbeKind::Exec {
            health.probe = ProbeKind::Auto;
            found.warn(&env.health_probe, instead("auto"));
        }
        if health.action == HealthAction::Restart {
            health.action = HealthAction::Report;
            found.warn(&env.health_action, instead("report"));
        }
    }
    // Not acted on by this version; the settings themselves are checked all the same.
    if health.probe == ProbeKind::Exec {
        health.probe = ProbeKind::Auto;
        found.warn(
            &env.health_probe,
            "exec is not available in this version; auto instead",
        );
    }
    if health.action == HealthAction::Restart {
        health.action = HealthAction::Report;
        found.warn(
            &env.health_action,
            "restart is not available in this version; report instead",
        );
    }
    health
}

/// What is checked already and not acted on by this version must not pass for working.
fn warn_of_later_settings(found: &mut Problems, env: &Environment) {
    for variable in [&env.webhook_url, &env.audit_log] {
        if variable.is_set() {
            found.warn(variable, "set, but this version does not use it");
        }
    }
}

fn read_log(found: &mut Problems, env: &Environment) -> LogSettings {
    LogSettings {
        level: found
            .read(&env.log_level, "error, warn, info, debug or trace", |text| {
                values::word(text, &LEVELS)
            })
            .unwrap_or(LogLevel::Info),
        format: found
            .read(&env.log_format, "text or json", |text| {
                values::word(text, &FORMATS)
            })
            .unwrap_or(LogFormat::Text),
    }
}
