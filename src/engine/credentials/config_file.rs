//! The registry accounts in Docker's own `config.json`. Everything else in it is ignored.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::header::{Account, server_address};
use crate::text::secret::Secret;

#[derive(Default, Deserialize)]
pub(super) struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: String,
}

#[derive(Default, Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default, rename = "identitytoken")]
    identity_token: String,
}

impl DockerConfig {
    /// The name of the helper that keeps the account of this registry.
    pub(super) fn helper(&self, registry: &str) -> Option<&str> {
        let own = self.helpers.iter().find(|(key, _)| is_of(key, registry));
        let helper = own.map_or(self.store.as_str(), |(_, helper)| helper);
        Some(helper).filter(|helper| !helper.is_empty())
    }

    /// The account in the file itself, where a helper leaves an empty entry. Errs with the entry that cannot be decoded.
    pub(super) fn account(&self, registry: &str) -> Result<Option<Account>, String> {
        let entries = self.auths.iter().filter(|(key, _)| is_of(key, registry));
        for (key, entry) in entries {
            if !entry.identity_token.is_empty() {
                return Ok(Some(Account::IdentityToken(Secret::new(&entry.identity_token))));
            }
            let (username, password) = if entry.auth.is_empty() {
                (entry.username.clone(), entry.password.clone())
            } else {
                decoded(&entry.auth)
                    .ok_or_else(|| format!("the login of {key} is not the base64 of user:password"))?
            };
            if !username.is_empty() {
                return Ok(Some(Account::Password {
                    username,
                    password: Secret::new(password),
                }));
            }
        }
        Ok(None)
    }
}

fn decoded(auth: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (username, password) = text.split_once(':')?;
    // Some clients pad with zeros.
    Some((username.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// Whether a key is this registry's. Keys come with or without scheme and path, and Docker Hub has three names.
fn is_of(key: &str, registry: &str) -> bool {
    let host = |text: &str| {
        let text = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"))
            .unwrap_or(text);
        let host = text.split('/').next().unwrap_or_default().to_ascii_lowercase();
        match host.as_str() {
            "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
            _ => host,
        }
    };
    key == server_address(registry) || host(key) == host(registry)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(json: serde_json::Value) -> DockerConfig {
        serde_json::from_value(json).unwrap()
    }

    fn account(config: &DockerConfig, registry: &str) -> Option<(String, String)> {
        match config.account(registry).unwrap()? {
            Account::Password { username, password } => Some((username, password.expose().to_owned())),
            Account::IdentityToken(token) => Some(("<token>".to_owned(), token.expose().to_owned())),
        }
    }

    #[test]
    fn a_login_is_found_however_its_registry_is_written() {
        let auth = |text: &str| json!({ "auth": STANDARD.encode(text) });
        let config = config(json!({
            "auths": {
                "https://index.docker.io/v1/": auth("hub:h"),
                "registry.example:5000": auth("r:pass:with:colons~>?+/"),
                "https://with-scheme.example/v2/": auth("s:s"),
                "zeros.example": auth("z:z\0\0"),
                "plain.example": { "username": "p", "password": "w" },
                "token.example": { "auth": STANDARD.encode("u:"), "identitytoken": "tok" },
                "in-a-helper.example": {},
            },
            "HttpHeaders": { "User-Agent": "Docker-Client" },
        }));
        for (registry, username, password) in [
            ("docker.io", "hub", "h"),
            ("registry.example:5000", "r", "pass:with:colons~>?+/"),
            ("with-scheme.example", "s", "s"),
            ("zeros.example", "z", "z"),
            ("plain.example", "p", "w"),
            ("token.example", "<token>", "tok"),
        ] {
            let found = account(&config, registry);
            assert_eq!(
                found,
                Some((username.to_owned(), password.to_owned())),
                "{registry}"
            );
        }
        for registry in [
            "registry.example",
            "registry.example:5001",
            "in-a-helper.example",
            "example",
        ] {
            assert_eq!(account(&config, registry), None, "{registry}");
        }
    }

    #[test]
    fn a_registry_s_own_helper_comes_before_the_store() {
        let config = config(json!({ "credHelpers": { "ecr.example": "ecr-login" }, "credsStore": "pass" }));
        assert_eq!(config.helper("ecr.example"), Some("ecr-login"));
        assert_eq!(config.helper("docker.io"), Some("pass"));
        assert_eq!(self::config(json!({})).helper("docker.io"), None);
    }

    #[test]
    fn a_broken_login_is_reported_by_its_registry_and_not_shown() {
        let config = config(json!({ "auths": { "r.example": { "auth": "hunter2" } } }));
        let error = config.account("r.example").unwrap_err();
        assert_eq!(error, "the login of r.example is not the base64 of user:password");
    }
}
