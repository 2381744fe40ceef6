//! Puts the parts together: settings → engine, Manager, reconciler.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::HeaderValue;

use crate::config::{
    AuditTarget, Egress, HealthAction, ManagerSettings, Notifications, ProxySettings, Settings, Source,
};
use crate::engine::{
    ConfigFile, Credentials, DockerEngine, Engine, EngineError, EngineHost, StaticCredentials,
};
use crate::events::audit::{self, AuditLog};
use crate::events::ledger::Ledger;
use crate::events::webhook::{Timing, Webhook};
use crate::events::{DeadMan, Event, Listeners};
use crate::health::http::HttpEndpoint;
use crate::host;
use crate::host::capacity;
use crate::image::ImageReference;
use crate::manager::{
    ClientError, ClientIdentity, Connection, FixedImage, HttpManager, ImageSource, ManagerConfig,
    ManagerError, ManagerRequests, ManagerSetupError,
};
use crate::net::certificates;
use crate::net::dns::Resolver;
use crate::observe::Scope;
use crate::reconcile::clock::Clock;
use crate::reconcile::{self, Reconciler};
use crate::rollout::Policy;
use crate::text::secret::Secret;

/// How long a connection to a receiver of events may take, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The upgrader, on a real engine.
pub(crate) type Upgrader = Reconciler<DockerEngine, ConfiguredSource, HttpEndpoint>;

/// Why the parts could not be put together: the configuration is wrong in a way that only its use shows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// The engine's address or certificates.
    #[error("DOCKER_HOST, DOCKER_CERT_PATH: {0}")]
    Engine(#[from] EngineError),
    /// The Manager's address, proxy or certificates.
    #[error("{0}")]
    Manager(#[from] ManagerSetupError),
    /// The URL of a receiver.
    #[error("WEBHOOK_URL, DEADMAN_URL: {0}")]
    Receiver(String),
    /// The certificates of the client for a receiver.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// A file disappeared after the settings were read, or the audit log cannot be written.
    #[error("{variable}: cannot open {path}: {error}")]
    File {
        /// The variable that names it.
        variable: &'static str,
        /// Where it was.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The proxy's address or login.
    #[error("PROXY_HOST, HTTPS_PROXY, HTTP_PROXY: the proxy cannot be used: {0}")]
    Proxy(String),
    /// The HTTP client for health endpoints.
    #[error("the HTTP client cannot start: {0}")]
    Http(#[from] reqwest::Error),
}

/// The configured source of published images.
pub(crate) struct ConfiguredSource {
    published: Published,
    /// the image of `SELF_UPGRADE`, which needs no Manager.
    self_image: Option<ImageReference>,
}

/// The source of the image that is published for delegates.
enum Published {
    /// A Manager.
    Manager(Box<HttpManager>),
    /// `PUBLISHED_IMAGE`.
    Fixed(FixedImage),
}

impl ConfiguredSource {
    /// Asks once, and waits for the answer no longer than this.
    pub(crate) fn impatient(mut self, limit: Duration) -> Self {
        if let Published::Manager(manager) = &mut self.published {
            manager.ask_once_within(limit);
        }
        self
    }

    /// This host's clock minus the Manager's, in seconds, if that is known.
    pub(crate) fn skew_seconds(&self) -> Option<i64> {
        match &self.published {
            Published::Manager(manager) => manager.skew_seconds(),
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
            Published::Fixed(fixed) => fixed.published(current, delegate).await,
        }
    }

    async fn published_upgrader(
        &self,
        current: &ImageReference,
    ) -> Option<Result<ImageReference, ManagerError>> {
        match (&self.self_image, &self.published) {
            (Some(image), _) => Some(Ok(image.clone())),
            (None, Published::Manager(manager)) => manager.published_upgrader(current).await,
            (None, Published::Fixed(_)) => None,
        }
    }

    fn needs_check_in(&self) -> bool {
        matches!(self.published, Published::Manager(_))
    }

    fn last_error(&self) -> Option<ManagerError> {
        match &self.published {
            Published::Manager(manager) => manager.last_error(),
            Published::Fixed(fixed) => fixed.last_error(),
        }
    }

    fn requests(&self) -> ManagerRequests {
        match &self.published {
            Published::Manager(manager) => manager.requests(),
            Published::Fixed(fixed) => fixed.requests(),
        }
    }
}

/// Puts the parts together. `reports_upgrader`: whether a request shows the Manager an upgrader at work.
pub(crate) async fn upgrader(
    settings: &Settings,
    reports_upgrader: bool,
    clock: Clock,
) -> Result<Upgrader, SetupError> {
    let engine = engine(settings)?;
    let scope = Scope {
        replaces_itself: settings.self_upgrade.then_some(settings.listen),
        ..scope(settings)
    };
    let endpoint = health_endpoint(&engine, &scope).await?;
    let source = source(settings, reports_upgrader)?;
    let settings = reconcile::Settings {
        scope,
        policy: policy(settings),
        target: settings.target.clone(),
        swarm: settings.swarm,
    };
    Ok(Reconciler::new(engine, source, endpoint, settings, clock))
}

pub(crate) fn policy(settings: &Settings) -> Policy {
    Policy {
        health_only: settings.disable_auto_upgrade,
        strategy: settings.strategy,
        healthy_time: settings.healthy_time,
        healthy_deadline: settings.healthy_deadline,
        idle_wait: settings.idle_wait,
        restarts_unhealthy: settings.health_action == HealthAction::Restart,
        timing: settings.timing.clone(),
    }
}

/// Learns what operators call this host, and how they type a command there.
pub(crate) async fn learn_place(settings: &Settings) {
    if let Ok(engine) = engine(settings) {
        host::place::learn(&engine, matches!(settings.engine, EngineHost::Tcp { .. })).await;
    }
}

/// Records and reports outcomes.
pub(crate) fn ledger(settings: &Settings, listeners: &Arc<Listeners>) -> Result<Ledger, SetupError> {
    let audit = settings.audit.as_ref().map(audit_log).transpose()?;
    let ledger = Ledger::new(host::place::host(), settings.health.interval);
    Ok(ledger.with_audit(audit).with_listeners(Arc::clone(listeners)))
}

fn audit_log(target: &AuditTarget) -> Result<AuditLog, SetupError> {
    let Some(path) = target.path() else {
        return Ok(AuditLog::Stdout);
    };
    AuditLog::open(path).map_err(|error| SetupError::File {
        variable: "AUDIT_LOG",
        path: path.display().to_string(),
        error,
    })
}

/// The records of the audit log, if it is a file.
pub(crate) fn records(settings: &Settings) -> impl Iterator<Item = Event> + use<> {
    let path = settings.audit.as_ref().and_then(AuditTarget::path).cloned();
    path.into_iter().flat_map(|path| audit::read(&path))
}

/// The containers to observe. The host's memory and disk count only where the engine runs on this host.
pub(crate) fn scope(settings: &Settings) -> Scope {
    let is_local = matches!(settings.engine, EngineHost::Unix(_));
    let mut known_images: Vec<_> = settings.target.image_of_own_build().into_iter().collect();
    if let Source::Fixed(published) = &settings.source {
        known_images.push(published.clone());
    }
    Scope {
        workload_names: settings.workload_names.clone(),
        account: settings.account().map(str::to_owned),
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

/// The client of the delegates' health endpoints, as they are reached from here.
pub(crate) async fn health_endpoint<E: Engine>(
    engine: &E,
    scope: &Scope,
) -> Result<HttpEndpoint, SetupError> {
    Ok(HttpEndpoint::new(
        host::host_address(engine, scope.own_id.as_ref()).await,
    )?)
}

/// The engine, with the registry logins. It is not called yet.
pub(crate) fn engine(settings: &Settings) -> Result<DockerEngine, SetupError> {
    Ok(DockerEngine::connect(&settings.engine)?.with_credentials(credentials(settings)))
}

/// The source of published images; `None` where there is none. `reports_upgrader` as for [`upgrader`].
pub(crate) fn source(
    settings: &Settings,
    reports_upgrader: bool,
) -> Result<Option<ConfiguredSource>, SetupError> {
    let published = match &settings.source {
        Source::None => return Ok(None),
        Source::Fixed(image) => Published::Fixed(FixedImage(image.clone())),
        Source::Manager(manager) => {
            let config = manager_config(manager, &settings.egress, reports_upgrader)?;
            Published::Manager(Box::new(HttpManager::new(config)?))
        }
    };
    Ok(Some(ConfiguredSource {
        published,
        self_image: settings.target.self_image.clone(),
    }))
}

/// Where outcomes are sent.
pub(crate) fn listeners(settings: &Settings) -> Result<Listeners, SetupError> {
    let Notifications { webhook, deadman } = settings.notifications.clone();
    let client = |url: &Secret| client(url.expose(), &settings.egress);
    let webhook = webhook.map(|webhook| {
        let client = client(&webhook.url)?;
        Ok::<_, SetupError>(Webhook::new(webhook, client, Timing::default()))
    });
    let dead_man = deadman.map(|url| {
        let client = client(&url)?;
        Ok::<_, SetupError>(DeadMan::new(url, client))
    });
    Ok(Listeners {
        webhook: webhook.transpose()?,
        dead_man: dead_man.transpose()?,
    })
}

/// A client for this URL of a receiver, which is reached as the Manager is.
fn client(url: &str, egress: &Egress) -> Result<reqwest::Client, SetupError> {
    // The settings hold valid URLs only.
    let parsed = reqwest::Url::parse(url).map_err(|error| SetupError::Receiver(error.to_string()))?;
    Ok(connection(egress, url)?.client(&parsed, CONNECT_TIMEOUT)?)
}

/// Makes a client for a URL.
#[cfg(feature = "kubernetes")]
pub(crate) type MakeClient = Box<dyn Fn(&str) -> Result<reqwest::Client, String> + Send + Sync>;

/// The logins and the client for asking registries without an engine. They are reached as the Manager is, but without the
/// certificate that is for the Manager.
#[cfg(feature = "kubernetes")]
pub(crate) fn registry_access(settings: &Settings) -> (Credentials, MakeClient) {
    let egress = Egress {
        client_cert: None,
        client_key: None,
        ..settings.egress.clone()
    };
    let client = move |url: &str| client(url, &egress).map_err(|error| error.to_string());
    (credentials(settings), Box::new(client))
}

/// A login that is configured beside a mirror or a custom repository is for their registries, and not for the one that a
/// published image names.
fn credentials(settings: &Settings) -> Credentials {
    let target = &settings.target;
    let given = settings.registry.clone().map(|login| StaticCredentials {
        username: login.username,
        password: login.password,
        registries: target.own_registries(),
    });
    let file = settings.docker_config.as_ref().map(|config| ConfigFile {
        path: config.directory.join("config.json"),
        named: config.is_named,
    });
    Credentials::new(given, file).with_inline(settings.docker_auth_config.clone())
}

fn manager_config(
    manager: &ManagerSettings,
    egress: &Egress,
    reports_upgrader: bool,
) -> Result<ManagerConfig, SetupError> {
    let mut config = ManagerConfig::new(
        &manager.base_url,
        &manager.account_id,
        manager.token.clone(),
        host::name(),
    );
    config.reports_upgrader = reports_upgrader;
    config.connection = connection(egress, &manager.base_url)?;
    Ok(config)
}

/// How this URL is reached.
fn connection(egress: &Egress, url: &str) -> Result<Connection, SetupError> {
    let settings = egress.proxy_for(url);
    let ca_bundle = egress.ca_bundle.as_deref();
    let client_identity = match (&egress.client_cert, &egress.client_key) {
        (Some(certificate), Some(key)) => Some(ClientIdentity {
            certificate: read("CLIENT_CERT", certificate)?,
            key: read("CLIENT_KEY", key)?,
        }),
        _ => None,
    };
    Ok(Connection {
        proxy: settings.map(|settings| proxy(settings, egress)).transpose()?,
        proxy_is_plain: settings.is_some_and(|proxy| proxy.url.starts_with("http://")),
        ca_bundle: ca_bundle.map(bundle).transpose()?,
        client_identity,
        resolver: Resolver::default(),
    })
}

fn proxy(settings: &ProxySettings, egress: &Egress) -> Result<reqwest::Proxy, SetupError> {
    let problem = |error: reqwest::Error| SetupError::Proxy(error.without_url().to_string());
    let mut proxy = reqwest::Proxy::all(&settings.url).map_err(problem)?;
    if let (Some(user), Some(password)) = (&settings.username, &settings.password) {
        // reqwest would put it in a URL, where %41 in a password means A.
        let login = BASE64_STANDARD.encode(format!("{user}:{}", password.expose()));
        let mut login = HeaderValue::try_from(format!("Basic {login}"))
            .map_err(|_| SetupError::Proxy("its login does not fit into a header".to_owned()))?;
        login.set_sensitive(true);
        proxy = proxy.custom_http_auth(login);
    }
    let exceptions = egress.no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
    Ok(proxy.no_proxy(exceptions))
}

fn bundle(path: &Path) -> Result<Vec<u8>, SetupError> {
    certificates::read_bundle(path).map_err(|error| unreadable("CA_BUNDLE", path, error))
}

fn read(variable: &'static str, path: &Path) -> Result<Vec<u8>, SetupError> {
    fs::read(path).map_err(|error| unreadable(variable, path, error))
}

fn unreadable(variable: &'static str, path: &Path, error: std::io::Error) -> SetupError {
    SetupError::File {
        variable,
        path: path.display().to_string(),
        error,
    }
}
