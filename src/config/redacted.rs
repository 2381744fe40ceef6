//! The effective settings as text, for people: secrets are named, never shown.

use std::path::Path;

use super::{ACTIONS, FORMATS, LEVELS, PROBES, Settings, Source, problems::without_userinfo, word_of};
use crate::engine::EngineHost;
use crate::text::duration;

const SET: &str = "(set)";
const UNSET: &str = "(unset)";

impl Settings {
    /// Every variable with the value in effect, in the order of the documentation. Of a secret it says whether
    /// it is set.
    pub fn redacted(&self) -> Vec<(&'static str, String)> {
        let secret = |set: bool| if set { SET } else { UNSET }.to_owned();
        let text = |value: Option<&str>| value.unwrap_or(UNSET).to_owned();
        let path = |value: Option<&Path>| value.map_or(UNSET.to_owned(), |path| path.display().to_string());
        let span = |value| duration::text(value);

        let manager = match &self.source {
            Source::Manager(manager) => Some(manager),
            Source::Fixed(_) | Source::None => None,
        };
        let published = match &self.source {
            Source::Fixed(image) => Some(image.to_string()),
            Source::Manager(_) | Source::None => None,
        };
        let max_version = self.target.pins.max_version.as_ref().map(ToString::to_string);
        let proxy = self.egress.proxy.as_ref();
        let host = self.engine.to_string();
        let tls = match &self.engine {
            EngineHost::Unix(_) => None,
            EngineHost::Tcp { tls, .. } => tls.as_deref(),
        };
        vec![
            (
                "ACCOUNT_ID",
                text(manager.map(|manager| manager.account_id.as_str())),
            ),
            (
                "MANAGER_HOST_AND_PORT",
                text(manager.map(|manager| manager.base_url.as_str())),
            ),
            ("UPGRADER_TOKEN", secret(manager.is_some())),
            ("UPGRADER_WORKLOAD_NAME", self.workload_names.join(",")),
            ("SCHEDULE", self.schedule.as_str().to_owned()),
            ("TZ", self.schedule.zone().name().to_owned()),
            ("CONTAINER_STOP_TIMEOUT", span(self.stop_timeout)),
            ("DISABLE_AUTO_UPGRADE", self.disable_auto_upgrade.to_string()),
            ("PUBLISHED_IMAGE", text(published.as_deref())),
            ("REGISTRY_MIRROR", text(self.target.registry_mirror.as_deref())),
            ("IMAGE_REPOSITORY", text(self.target.image_repository.as_deref())),
            ("REQUIRE_DIGEST", self.target.pins.require_digest.to_string()),
            ("MAX_VERSION", text(max_version.as_deref())),
            ("UPGRADE_STRATEGY", self.strategy.to_string()),
            ("HEALTHY_TIME", span(self.healthy_time)),
            ("HEALTHY_DEADLINE", span(self.healthy_deadline)),
            ("HEALTH_INTERVAL", span(self.health.interval)),
            ("HEALTH_PROBE", word_of(&PROBES, self.health.probe).to_owned()),
            ("HEALTH_PORT", self.health.port.to_string()),
            ("HEALTH_PATH", self.health.path.clone()),
            ("HEALTH_ACTION", word_of(&ACTIONS, self.health.action).to_owned()),
            ("RUN_ON_START", self.run_on_start.to_string()),
            ("SCHEDULE_JITTER", span(self.schedule_jitter)),
            (
                "REGISTRY_USERNAME",
                text(self.registry.as_ref().map(|login| login.username.as_str())),
            ),
            ("REGISTRY_PASSWORD", secret(self.registry.is_some())),
            (
                "DOCKER_CONFIG",
                path(
                    self.docker_config
                        .as_ref()
                        .map(|(directory, _)| directory.as_path()),
                ),
            ),
            (
                "HTTPS_PROXY",
                text(proxy.map(|proxy| without_userinfo(&proxy.url)).as_deref()),
            ),
            (
                "PROXY_USER",
                text(proxy.and_then(|proxy| proxy.username.as_deref())),
            ),
            (
                "PROXY_PASSWORD",
                secret(proxy.is_some_and(|proxy| proxy.password.is_some())),
            ),
            ("NO_PROXY", text(self.egress.no_proxy.as_deref())),
            ("CA_BUNDLE", path(self.egress.ca_bundle.as_deref())),
            ("CLIENT_CERT", path(self.egress.client_cert.as_deref())),
            ("CLIENT_KEY", path(self.egress.client_key.as_deref())),
            ("LISTEN_ADDR", self.listen.to_string()),
            ("WEBHOOK_URL", secret(self.webhook_url.is_some())),
            ("AUDIT_LOG", path(self.audit_log.as_deref())),
            ("LOG_LEVEL", word_of(&LEVELS, self.log.level).to_owned()),
            ("LOG_FORMAT", word_of(&FORMATS, self.log.format).to_owned()),
            ("DOCKER_HOST", host),
            (
                "DOCKER_TLS_VERIFY",
                if tls.is_some() { "1" } else { UNSET }.to_owned(),
            ),
            ("DOCKER_CERT_PATH", path(tls)),
        ]
    }
}
