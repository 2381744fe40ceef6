//! `docs/reference/causes.md`: the text of the line if a reason has several causes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use delegate_upgrader::document::{DependencyKind, Obstacle, SingleInstance};
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::ManagerError;
use delegate_upgrader::rollout::reason::Awaited;
use delegate_upgrader::rollout::{FailureCause, RestartDeferral};
use kit::page;
use strum::VariantNames;

use super::examples::{OLD, not_healthy_in_time};

const PAGE: &str = "docs/reference/causes.md";

/// The rows of one enum, whose examples must cover all of its variants.
fn rows<T: VariantNames + ToString>(
    reasons: &str,
    examples: &[T],
    kind: impl Fn(&T) -> &'static str,
) -> String {
    let kinds: BTreeSet<&str> = examples.iter().map(&kind).collect();
    assert_eq!(kinds, T::VARIANTS.iter().copied().collect(), "{reasons}");
    let mut rows = String::new();
    for example in examples {
        let line = example.to_string();
        assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        let _ = writeln!(rows, "| {reasons} | `{}` | {line} |", kind(example));
    }
    rows
}

#[rustfmt::skip]
fn obstacles() -> [Obstacle; 11] {
    [
        Obstacle::Managed { manager: "Docker Swarm", label: "com.docker.swarm.task.id" },
        Obstacle::HasDependent { container: "vpn".to_owned(), kind: DependencyKind::Network },
        Obstacle::DependencyMissing { container: "vpn".to_owned(), kind: DependencyKind::Network },
        Obstacle::SwarmNetwork { network: "overlay-1".to_owned() },
        Obstacle::CopiedFile { path: "/etc/settings.yml".to_owned() },
        Obstacle::FilesUnknown { problem: "it has more than 128 MiB, which is too much to know".to_owned() },
        Obstacle::PodmanSecret { secret: "delegate-token".to_owned() },
        Obstacle::ImageRemoved { image: OLD.to_owned() },
        Obstacle::OtherPlatform { old: "linux/amd64".to_owned(), new: "linux/arm64".to_owned() },
        Obstacle::ImageUnknown { which: "old image" },
        Obstacle::Malformed { document: "container", path: "/HostConfig", expected: "an object" },
    ]
}

#[rustfmt::skip]
fn single_instance() -> [SingleInstance; 9] {
    [
        SingleInstance::HostNetwork,
        SingleInstance::PublishedPort { host: "3461".to_owned(), container: "3460/tcp".to_owned() },
        SingleInstance::FixedIp { network: "site".to_owned(), address: "172.20.0.9".to_owned() },
        SingleInstance::FixedMac { address: "02:42:ac:11:00:09".to_owned() },
        SingleInstance::ContainerNamespace { kind: DependencyKind::Pid, container: "vpn".to_owned() },
        SingleInstance::Device { path: "/dev/ttyUSB0".to_owned() },
        SingleInstance::PrivateLabel { path: "/srv/delegate".to_owned() },
        SingleInstance::NoFreePort { problem: "port is already allocated".to_owned() },
        SingleInstance::TooLittleMemory { needed: 2 << 30, available: 900 << 20 },
    ]
}

#[rustfmt::skip]
fn manager_errors() -> Vec<ManagerError> {
    let not_a_reference = "harness/delegate:".parse::<ImageReference>().unwrap_err();
    vec![
        ManagerError::Unreachable("connection refused".to_owned()),
        ManagerError::Tls("UnknownIssuer".to_owned()),
        ManagerError::ClientCertificate("CertificateRequired".to_owned()),
        ManagerError::ProxyLogin,
        ManagerError::Timeout(Duration::from_secs(30)),
        ManagerError::TokenUnknown,
        ManagerError::TokenRevoked,
        ManagerError::TokenExpired { skew_seconds: Some(-420) },
        ManagerError::WrongEndpoint,
        ManagerError::AccessDenied,
        ManagerError::InvalidRequest { code: "INVALID_ARGUMENT".to_owned(), message: "the Manager's words".to_owned() },
        ManagerError::Refused { status: 404, message: "not found".to_owned() },
        ManagerError::RateLimited { retry_after: Some(Duration::from_secs(60)) },
        ManagerError::Server { status: 503, message: "maintenance".to_owned() },
        ManagerError::Redirect { status: 302, to: "https://login.example".to_owned() },
        ManagerError::TooLarge { limit: 65_536 },
        ManagerError::Malformed("no JSON".to_owned()),
        ManagerError::BadReference(not_a_reference),
        ManagerError::NoToken("no random numbers".to_owned()),
    ]
}

#[rustfmt::skip]
fn failures() -> [FailureCause; 10] {
    let ending = || "exited with code 3".to_owned();
    let health = "http://172.17.0.2:3460/api/health answers 503".to_owned();
    [
        FailureCause::CrashLoop { restarts: 3, ending: ending() },
        FailureCause::Exited { ending: ending() },
        not_healthy_in_time(),
        FailureCause::StartRefused { problem: "the engine's words".to_owned() },
        FailureCause::EndedAfterCommit { ending: ending() },
        FailureCause::UnhealthyAfterCommit { lasting: Duration::from_secs(600), health },
        FailureCause::HelperFailed { ending: ending() },
        FailureCause::NameNotTaken { within: Duration::from_secs(30) },
        FailureCause::RolloutFailed { problem: "1 of 2 ran after 10m (task: non-zero exit (1))".to_owned() },
        FailureCause::RejectedByAnother,
    ]
}

#[rustfmt::skip]
fn deferrals() -> [RestartDeferral; 6] {
    [
        RestartDeferral::ManagerUnreachable { problem: "connection refused".to_owned() },
        RestartDeferral::AskingManager,
        RestartDeferral::CheckingAgain,
        RestartDeferral::MostUnhealthy { unhealthy: 2, all: 3 },
        RestartDeferral::Obstacle(obstacles()[0].clone()),
        RestartDeferral::Refused { problem: "403 Forbidden".to_owned() },
    ]
}

#[test]
fn the_page_has_every_cause() {
    let awaited = [
        Awaited::Manager,
        Awaited::Prometheus,
        Awaited::Registry("registry.example".to_owned()),
    ];
    let table = [
        "| reason | cause | the line says |\n|---|---|---|\n".to_owned(),
        rows("`obstacle`", &obstacles(), Obstacle::kind),
        rows("`cannot_start_first`", &single_instance(), SingleInstance::kind),
        rows("`target_unknown`", &manager_errors(), ManagerError::kind),
        rows("`awaiting_answer`", &awaited, |awaited| awaited.into()),
        rows("`rejected`", &failures(), FailureCause::kind),
        rows("`restart_deferred`", &deferrals(), |held_back| held_back.into()),
    ];
    page::has(PAGE, "causes", &table.concat());
}

/// After an outage, the Manager is asked again, and no delegate is at fault.
#[test]
fn an_outage_is_an_error_without_a_manager_response() {
    let errors = manager_errors();
    let outages = errors
        .iter()
        .filter(|error| error.is_outage())
        .map(ManagerError::kind);
    assert_eq!(
        outages.collect::<Vec<_>>(),
        [
            "unreachable",
            "tls",
            "client_certificate",
            "proxy_login",
            "timeout",
            "server"
        ]
    );
}
