//! Makes [`Settings`] from the variables. Independent variables are read here, and variables that belong together in
//! [`connections`].

use std::net::SocketAddr;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use super::aliases::DRY_RUNS;
use super::notifications::notifications;
use super::problems::{ConfigErrors, Problems};
use super::reader::Reader;
use super::timing::timing;
use super::variables::{Environment, Variable};
use super::{
    HealthAction, HealthSettings, LogSettings, Needs, Policy, ProbeKind, Settings, Source, audit,
    connections, parse,
};
use crate::image::{ImagePolicy, ImageReference, TargetSettings, Version};
use crate::schedule::Schedule;
use crate::schedule::zone::Zone;
use crate::text::{duration, quoted};

const SECOND: Duration = Duration::from_secs(1);
/// The longest default of `SCHEDULE_JITTER`.
const MAX_DEFAULT_JITTER: Duration = Duration::from_secs(300);

/// Reads all variables, even if some of them are wrong.
pub(super) fn settings(
    env: &Environment,
    needs: Needs,
    problems: Problems,
) -> Result<Settings, ConfigErrors> {
    let mut reader = Reader::new(env, problems);
    let disable_auto_upgrade = reader.flag(&env.disable_auto_upgrade);
    let source = match needs {
        Needs::All => connections::source(&mut reader, env, disable_auto_upgrade),
        Needs::HostOnly => Some(Source::None),
    };
    let account = env.account_id.get().filter(|_| !env.published_image.is_set());
    let workload_names = reader.read_as(&env.upgrader_workload_name, parse::workloads, |names| {
        names.join(",")
    });
    let schedule = schedule(&mut reader, env);
    let schedule_jitter = schedule_jitter(&mut reader, env, schedule.as_ref());
    let run_on_start = reader.flag(&env.run_on_start);
    let stop_timeout = reader.duration(&env.container_stop_timeout, SECOND);
    // It must not be lower than `CONTAINER_STOP_TIMEOUT`, which applies to every delegate.
    let max_stop_timeout = reader.optional_duration(&env.max_stop_timeout, stop_timeout);
    let keep_images = reader.value(&env.keep_images, keep_images);
    let update_order = reader.word(&env.update_order);
    let zone = schedule
        .as_ref()
        .map_or_else(Zone::utc, |schedule| schedule.zone().clone());
    let timing = timing(&mut reader, env, &zone);
    let healthy_time = reader.duration(&env.upgrade_healthy_time, SECOND);
    let healthy_deadline = reader.duration(&env.upgrade_healthy_deadline, SECOND);
    check_deadline(&mut reader, env, healthy_time, healthy_deadline);
    let idle_wait = reader.duration(&env.upgrade_idle_wait, Duration::ZERO);
    let mut target = target(&mut reader, env);
    let (self_upgrade, self_image) = reader
        .read_as(&env.self_upgrade, self_upgrade, |(is_on, image)| {
            image
                .as_ref()
                .map_or_else(|| is_on.to_string(), ToString::to_string)
        })
        .unwrap_or_default();
    if self_upgrade {
        check_writes(&mut reader, &env.self_upgrade, disable_auto_upgrade);
        if matches!(source, Some(Source::Fixed(_))) && self_image.is_none() {
            let given =
                "\"true\", but with PUBLISHED_IMAGE no Manager says which image the upgrader should run";
            let accepted = "an image reference such as registry.example/delegate-upgrader:1.2.0, or false";
            reader
                .problems
                .push(env.self_upgrade.row.name, given.to_owned(), accepted);
        }
    }
    target.self_image = self_image;
    let swarm = reader.flag(&env.swarm);
    let credentials = connections::credentials(&mut reader, env, &target);
    let health = health(&mut reader, env, disable_auto_upgrade);
    let restarts_unhealthy = reader.word::<HealthAction>(&env.health_action) == HealthAction::Restart;
    let notifications = notifications(&mut reader, env);
    let egress = connections::egress(&mut reader, env);
    // The variables of this file are already in `env`. This only notes its path for `config`.
    reader.text(&env.environment_file);
    let listen = reader.read(&env.listen_addr, parse::listen_address);
    let status_hosts = reader.read_as(&env.status_hosts, parse::hosts, |hosts| hosts.join(","));
    let log = LogSettings {
        level: reader
            .read(&env.log_level, parse::log_level)
            .unwrap_or(LevelFilter::INFO),
        format: reader.word(&env.log_format),
    };
    let audit = audit::audit_log(&mut reader, env);
    let engine = connections::engine(&mut reader, env);

    if needs == Needs::HostOnly {
        // Such a command works without these connections.
        const PREFIXES: [&str; 7] = [
            "PROMETHEUS_",
            "WEBHOOK_",
            "DEADMAN_",
            "CA_",
            "CLIENT_",
            "PROXY_",
            "HTTPS_",
        ];
        let is_optional = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        reader.problems.tolerate(is_optional);
    }
    if needs == Needs::HostOnly || disable_auto_upgrade {
        reader.problems.tolerate(|name| DRY_RUNS.contains(&name));
    }
    let (warnings, effective) = reader.finish(env)?;
    // A setting can be missing only because of a problem, which `finish` has returned already.
    let complete = || {
        Some(Settings {
            source: source?,
            account: account.map(str::to_owned),
            workload_names: workload_names?,
            schedule: schedule?,
            schedule_jitter,
            run_on_start,
            stop_timeout,
            max_stop_timeout,
            keep_images,
            policy: Policy {
                health_only: disable_auto_upgrade,
                update_order,
                healthy_time,
                healthy_deadline,
                idle_wait,
                restarts_unhealthy,
                timing,
            },
            target,
            health,
            swarm,
            self_upgrade,
            credentials,
            egress,
            notifications,
            listen: listen?,
            status_hosts: status_hosts.unwrap_or_default(),
            log,
            audit,
            engine: engine?,
            warnings,
            effective,
        })
    };
    complete().ok_or_else(ConfigErrors::default)
}

/// Reads `LISTEN_ADDR` alone. Only problems with it and with `ENVIRONMENT_FILE` matter.
pub(super) fn listen_alone(env: &Environment, problems: Problems) -> Result<SocketAddr, ConfigErrors> {
    let mut reader = Reader::new(env, problems);
    let listen = reader.read(&env.listen_addr, parse::listen_address);
    let rows = [env.listen_addr.row, env.environment_file.row];
    let is_wrong = rows.into_iter().any(|row| reader.problems.names(row));
    match (listen, reader.finish(env)) {
        (Some(listen), _) if !is_wrong => Ok(listen),
        (_, finished) => Err(finished.err().unwrap_or_default()),
    }
}

fn schedule(reader: &mut Reader, env: &Environment) -> Option<Schedule> {
    let zone = if env.tz.is_set() {
        // A wrong zone becomes a problem; the schedule is checked nevertheless.
        reader.read(&env.tz, parse::time_zone)
    } else {
        let name = iana_time_zone::get_timezone().ok();
        let zone = name.and_then(|name| Zone::named(&name)).unwrap_or_else(Zone::utc);
        reader.note(&env.tz, &zone);
        Some(zone)
    };
    let zone = zone.unwrap_or_else(Zone::utc);
    let parse = |text: &str| Schedule::parse(text, zone.clone());
    let schedule = reader.read_as(&env.schedule, parse, |schedule| schedule.as_str().to_owned())?;
    for warning in schedule.warnings() {
        reader.problems.warn(&env.schedule, warning);
    }
    Some(schedule)
}

/// Without jitter, all hosts with the same schedule would pull at the same second.
fn schedule_jitter(reader: &mut Reader, env: &Environment, schedule: Option<&Schedule>) -> Duration {
    if env.schedule_jitter.is_set() {
        return reader.duration(&env.schedule_jitter, Duration::ZERO);
    }
    let twelfth = schedule.map_or(0, |schedule| schedule.shortest_gap().as_secs() / 12);
    let jitter = MAX_DEFAULT_JITTER.min(Duration::from_secs(twelfth));
    reader.note(&env.schedule_jitter, duration::text(jitter));
    jitter
}

fn check_deadline(reader: &mut Reader, env: &Environment, time: Duration, deadline: Duration) {
    let are_read = !reader.problems.names(env.upgrade_healthy_time.row)
        && !reader.problems.names(env.upgrade_healthy_deadline.row);
    if are_read && deadline <= time {
        // Name the variable that was set.
        let variable = if env.upgrade_healthy_deadline.is_set() {
            &env.upgrade_healthy_deadline
        } else {
            &env.upgrade_healthy_time
        };
        let (deadline, time) = (duration::text(deadline), duration::text(time));
        let given = format!("UPGRADE_HEALTHY_DEADLINE is {deadline}, UPGRADE_HEALTHY_TIME is {time}");
        reader.problems.wrong(variable.row, given);
    }
}

fn keep_images(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=9).contains(number));
    number.ok_or_else(String::new)
}

fn target(reader: &mut Reader, env: &Environment) -> TargetSettings {
    let registry_mirror = reader.read(&env.registry_mirror, parse::mirror);
    let image_repository = reader.read(&env.image_repository, parse::repository);
    if registry_mirror.is_some() && image_repository.is_some() {
        let warning = "not used, since IMAGE_REPOSITORY says where images come from";
        reader.problems.warn(&env.registry_mirror, warning);
    }
    TargetSettings {
        registry_mirror,
        image_repository,
        self_image: None,
        policy: ImagePolicy {
            require_digest: reader.flag(&env.require_digest),
            max_version: reader.read(&env.max_version, |text| {
                let version = text.parse().ok().filter(Version::is_by_month);
                version.ok_or_else(String::new)
            }),
        },
        pull: reader.word(&env.pull),
    }
}

/// Whether the upgrader replaces itself, and with which image. A single word is a misspelt boolean, not an image.
fn self_upgrade(text: &str) -> Result<(bool, Option<ImageReference>), String> {
    if let Ok(is_on) = parse::boolean(text) {
        return Ok((is_on, None));
    }
    if !text.contains([':', '/', '@']) {
        return Err(String::new());
    }
    Ok((true, Some(parse::image(text)?)))
}

fn health(reader: &mut Reader, env: &Environment, health_only: bool) -> HealthSettings {
    let probe = reader.word(&env.health_probe);
    if probe == ProbeKind::Exec {
        check_writes(reader, &env.health_probe, health_only);
    } else if probe != ProbeKind::Auto {
        reader.unused(&[&env.health_command], " without HEALTH_PROBE=exec or auto");
    }
    HealthSettings {
        interval: reader.duration(&env.health_interval, SECOND),
        probe,
        port: reader.value(&env.health_port, parse::port),
        path: "/api/health",
        command: reader
            .read_as(
                &env.health_command,
                parse::command,
                |command| match &command[..] {
                    [shell, option, text] if shell == "/bin/sh" && option == "-c" => text.clone(),
                    program => format!("{program:?}"),
                },
            )
            .unwrap_or_default(),
    }
}

/// Refuses a setting that needs more than `GET` requests, since `DISABLE_AUTO_UPGRADE` promises no others.
fn check_writes(reader: &mut Reader, variable: &Variable, health_only: bool) {
    if health_only && let Some(value) = variable.get() {
        let given = format!(
            "{}, but DISABLE_AUTO_UPGRADE=true sends the engine nothing but GET requests, and restarts with HEALTH_ACTION=restart",
            quoted(value, 100)
        );
        let accepted = "another value, or DISABLE_AUTO_UPGRADE=false";
        reader.problems.push(variable.row.name, given, accepted);
    }
}
