//! Reads the registry accounts in Docker's own `config.json` and ignores everything else in the file.

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
    /// Returns the name of the credential helper that stores the account of this registry.
    pub(super) fn helper(&self, registry: &str) -> Option<&str> {
        let own = self.helpers.iter().find(|(key, _)| is_of(key, registry));
        let helper = own.map_or(self.store.as_str(), |(_, helper)| helper);
        Some(helper).filter(|helper| !helper.is_empty())
    }

    /// Returns the account that is stored in the file itself, with the key of its entry. If a helper stores the account, the
    /// entry is empty. Fails with a message about the entry that cannot be decoded.
    pub(super) fn account(&self, registry: &str) -> Result<Option<(&str, Account)>, String> {
        let entries = self.auths.iter().filter(|(key, _)| is_of(key, registry));
        for (key, entry) in entries {
            if !entry.identity_token.is_empty() {
                let token = Secret::new(&entry.identity_token);
                return Ok(Some((key, Account::IdentityToken(token))));
            }
            let (username, password) = if entry.auth.is_empty() {
                (entry.username.clone(), entry.password.clone())
            } else {
                decoded(&entry.auth)
                    .ok_or_else(|| format!("the login of {key} is not the base64 of user:password"))?
            };
            if !username.is_empty() {
                let password = Secret::new(password);
                return Ok(Some((key, Account::Password { username, password })));
            }
        }
        Ok(None)
    }
}

fn decoded(auth: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (username, password) = text.split_once(':')?;
    // Some clients pad the password with zero bytes.
    Some((username.to_owned(), password.trim_end_matches('\0').to_owned()))
}

/// Whether a key belongs to this registry. Keys may include a scheme and a path, and Docker Hub has three names.
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
