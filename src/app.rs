//! Puts the parts of the program together: makes the engine, the Manager and the reconciler from the settings.

use std::sync::Arc;
use std::time::Duration;

use crate::alerts::{self, AskAlerts};
use crate::config::{self, AuditTarget, Notifications, Settings, Source};
#[cfg(feature = "kubernetes")]
use crate::engine::Credentials;
use crate::engine::{DockerEngine, EngineHost};
use crate::events::audit::{self, AuditLog};
use crate::events::ledger::Ledger;
use crate::events::webhook::{Timing, Webhook};
use crate::events::{DeadMan, Event, Listeners};
use crate::health::http::HttpEndpoint;
use crate::host;
use crate::host::capacity;
use crate::image::ImageReference;
use crate::manager::{HttpManager, ImageSource, ManagerConfig, ManagerError, ManagerRequests};
use crate::net::client::{CONNECT_TIMEOUT, Egress};
use crate::observe::Scope;
use crate::reconcile::clock::Clock;
use crate::reconcile::controller::Controller as _;
use crate::reconcile::{self, Reconciler};
use crate::text::secret::Secret;

/// The upgrader for a real engine.
pub(crate) type Upgrader = Reconciler<DockerEngine, ConfiguredSource, HttpEndpoint>;

/// The configured source of published images.
#[derive(Clone)]
pub(crate) struct ConfiguredSource {
    published: Published,
    /// The image in `SELF_UPGRADE`, which needs no Manager.
    self_image: Option<ImageReference>,
}

/// The source of the image that is published for delegates.
#[derive(Clone)]
enum Published {
    /// A Manager.
    Manager(Arc<HttpManager>),
    /// `PUBLISHED_IMAGE`.
    Fixed(ImageReference),
}

impl ConfiguredSource {
    /// This host's clock minus the Manager's, in seconds, if known.
    pub(crate) fn skew_seconds(&self) -> Option<i64> {
        self.manager()?.skew_seconds()
    }

    fn manager(&self) -> Option<&HttpManager> {
        match &self.published {
            Published::Manager(manager) => Some(manager),
            Published::Fixed(_) => None,
        }
    }
}

impl ImageSource for ConfiguredSource {
    async fn published(
        &self,
        current: &ImageReference,
        delegate: &str,
    ) -> Result<ImageReference, ManagerError> {
        match &self.published {
            Published::Manager(manager) => manager.published(current, delegate).await,
            Published::Fixed(image) => Ok(image.clone()),
        }
    }

    async fn published_upgrader(
        &self,
        current: &ImageReference,
    ) -> Option<Result<ImageReference, ManagerError>> {
        match (&self.self_image, self.manager()) {
            (Some(image), _) => Some(Ok(image.clone())),
            (None, Some(manager)) => manager.published_upgrader(current).await,
            (None, None) => None,
        }
    }

    fn needs_check_in(&self) -> bool {
        self.manager().is_some()
    }

    fn last_error(&self) -> Option<ManagerError> {
        self.manager()?.last_error()
    }

    fn requests(&self) -> ManagerRequests {
        self.manager().map(HttpManager::requests).unwrap_or_default()
    }
}

/// How long each request of `doctor` or `plan` may take, so that `doctor` ends within ten seconds even if nothing answers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

/// Makes the upgrader. If it may upgrade, its requests make the Manager show an active upgrader.
pub(crate) async fn upgrader(settings: &Settings, clock: Clock) -> Result<Upgrader, String> {
    let source = source(settings, !settings.policy.health_only, None, host::place::host())?;
    upgrader_with(settings, source, clock).await
}

/// Makes an upgrader for a command that only reads: an operator waits for its answer, and the Manager must not show it as active.
pub(crate) async fn looking(settings: &Settings) -> Result<Upgrader, String> {
    learn_place(settings).await;
    let source = impatient_source(settings, host::place::host())?;
    upgrader_with(settings, source, Arc::new(chrono::Utc::now)).await
}

/// Makes an upgrader with this source.
pub(crate) async fn upgrader_with(
    settings: &Settings,
    source: Option<ConfiguredSource>,
    clock: Clock,
) -> Result<Upgrader, String> {
    let (engine, egress) = (engine(settings)?, &settings.egress);
    let scope = Scope {
        replaces_itself: settings.self_upgrade.then_some(settings.listen),
        ..scope(settings)
    };
    let endpoint = HttpEndpoint::new(host::host_address(&engine, scope.own_id.as_ref()).await)
        .map_err(|error| format!("the HTTP client cannot start: {error}"))?;
    let settings = reconcile::Settings {
        scope,
        policy: settings.policy.clone(),
        target: settings.target.clone(),
        swarm: settings.swarm,
    };
    let alerts = alerts(&settings.policy.timing, egress)?;
    Ok(Reconciler::new(engine, source, endpoint, settings, clock).with_alerts(alerts))
}

/// The function that asks which alerts of `HOLD_ON_ALERTS` fire, if that is set.
pub(crate) fn alerts(timing: &config::Timing, egress: &Egress) -> Result<Option<AskAlerts>, String> {
    let Some(hold) = &timing.alerts else {
        return Ok(None);
    };
    Ok(Some(alerts::asker(
        hold,
        egress.client(hold.url.expose(), CONNECT_TIMEOUT)?,
    )))
}

/// Finds out the name that operators use for this host, and how they run a command on it.
pub(crate) async fn learn_place(settings: &Settings) {
    if let Ok(engine) = engine(settings) {
        host::place::learn(&engine, matches!(settings.engine, EngineHost::Tcp { .. })).await;
    }
}

/// Makes the ledger, which records and reports outcomes.
pub(crate) fn ledger(settings: &Settings, listeners: &Arc<Listeners>) -> Result<Ledger, String> {
    let audit = audit_log(&settings.audit)?;
    let (host, interval) = (host::place::host(), settings.health.interval);
    Ok(Ledger::new(host, interval, audit, Arc::clone(listeners)))
}

fn audit_log(target: &AuditTarget) -> Result<Option<AuditLog>, String> {
    let path = match target {
        AuditTarget::Off | AuditTarget::NotWritable => return Ok(None),
        AuditTarget::Stdout => return Ok(Some(AuditLog::Stdout)),
        AuditTarget::File(path) => path,
    };
    let opened = AuditLog::open(path);
    let opened = opened.map_err(|error| format!("AUDIT_LOG: cannot open {}: {error}", path.display()));
    opened.map(Some)
}

/// The records of the audit log, if it is a file.
pub(crate) fn records(settings: &Settings) -> impl Iterator<Item = Event> + use<> {
    let path = settings.audit.readable();
    path.map(audit::read).into_iter().flatten()
}

/// The containers to observe. The memory and disk of this host count only if the engine also runs here.
pub(crate) fn scope(settings: &Settings) -> Scope {
    let is_local = matches!(settings.engine, EngineHost::Unix(_));
    let mut known_images: Vec<_> = settings.target.image_of_own_build().into_iter().collect();
    if let Source::Fixed(published) = &settings.source {
        known_images.push(published.clone());
    }
    Scope {
        workload_names: settings.workload_names.clone(),
        account: settings.account.clone(),
        health: settings.health.clone(),
        known_images,
        stop_timeout: settings.stop_timeout,
        max_stop_timeout: settings.max_stop_timeout,
        keep_images: settings.keep_images,
        own_id: host::own_container(),
        replaces_itself: None,
        free_memory: Arc::new(move || is_local.then(capacity::host_memory).flatten()),
        free_disk: Arc::new(move |storage, container| {
            is_local
                .then(|| capacity::free_disk(storage, container))
                .flatten()
        }),
        zone: settings.schedule.zone().clone(),
    }
}

/// Makes the engine's client, with the registry logins. It does not call the engine.
pub(crate) fn engine(settings: &Settings) -> Result<DockerEngine, String> {
    DockerEngine::connect(&settings.engine, settings.credentials.clone())
        .map_err(|error| format!("DOCKER_HOST, DOCKER_CERT_PATH: {error}"))
}

/// The source of published images for a command that only reads: it asks the Manager once and does not wait for long.
pub(crate) fn impatient_source(
    settings: &Settings,
    issuer: String,
) -> Result<Option<ConfiguredSource>, String> {
    source(settings, false, Some(PATIENCE), issuer)
}

/// The source of published images; `None` without one. `reports_upgrader`: whether its requests make the Manager show an active
/// upgrader. With `limit`, it asks the Manager
/// only once, and waits no longer than this for the answer. The Manager knows this upgrader and the next one in its place as
/// `issuer`: the host, or in a cluster the namespace.
pub(crate) fn source(
    settings: &Settings,
    reports_upgrader: bool,
    limit: Option<Duration>,
    issuer: String,
) -> Result<Option<ConfiguredSource>, String> {
    let published = match &settings.source {
        Source::None => return Ok(None),
        Source::Fixed(image) => Published::Fixed(image.clone()),
        Source::Manager(manager) => {
            let config = ManagerConfig {
                reports_upgrader,
                egress: settings.egress.clone(),
                ..ManagerConfig::new(manager.clone(), issuer)
            };
            let mut manager = HttpManager::new(config)?;
            if let Some(limit) = limit {
                manager.ask_once_within(limit);
            }
            Published::Manager(Arc::new(manager))
        }
    };
    Ok(Some(ConfiguredSource {
        published,
        self_image: settings.target.self_image.clone(),
    }))
}

/// The receivers of outcomes. Connections to them use the same proxy and certificates as those to the Manager.
pub(crate) fn listeners(settings: &Settings) -> Result<Listeners, String> {
    let Notifications { webhook, deadman } = settings.notifications.clone();
    let client = |url: &Secret| settings.egress.client(url.expose(), CONNECT_TIMEOUT);
    let webhook = webhook.map(|webhook| {
        let client = client(&webhook.url)?;
        Ok::<_, String>(Webhook::new(webhook, client, Timing::default()))
    });
    let dead_man = deadman.map(|url| {
        let client = client(&url)?;
        Ok::<_, String>(DeadMan::new(url, client))
    });
    Ok(Listeners {
        webhook: webhook.transpose()?,
        dead_man: dead_man.transpose()?,
    })
}

/// A function that makes an HTTP client for a URL.
#[cfg(feature = "kubernetes")]
pub(crate) type MakeClient = Box<dyn Fn(&str) -> Result<reqwest::Client, String> + Send + Sync>;

/// The logins and the HTTP client for asking registries directly, without an engine. The connection is like that to the
/// Manager, but without the client certificate, which is only for the Manager.
#[cfg(feature = "kubernetes")]
pub(crate) fn registry_access(settings: &Settings) -> (Credentials, MakeClient) {
    let egress = Egress {
        client_identity: None,
        ..settings.egress.clone()
    };
    let client = move |url: &str| egress.client(url, CONNECT_TIMEOUT);
    (settings.credentials.clone(), Box::new(client))
}
