//! Registry credentials on their way to the engine: the header `X-Registry-Auth`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::json;

use crate::text::secret::Secret;

/// The header that carries registry credentials to the engine.
pub(in crate::engine) const HEADER: &str = "X-Registry-Auth";

/// The account that pulls.
#[derive(Clone, Debug)]
pub(in crate::engine) enum Account {
    /// A user name with its password or access token.
    Password { username: String, password: Secret },
    /// The token that `docker login` got in place of a password.
    IdentityToken(Secret),
}

/// An account at one registry.
#[derive(Clone)]
pub(in crate::engine) struct Login {
    pub(super) account: Account,
    registry: String,
}

impl Login {
    pub(in crate::engine) fn new(account: Account, registry: &str) -> Self {
        Self {
            account,
            registry: registry.to_owned(),
        }
    }

    /// The value of [`HEADER`] in a request of our own.
    pub(in crate::engine) fn header(&self) -> String {
        let serveraddress = server_address(&self.registry);
        let credentials = match &self.account {
            Account::Password { username, password } => json!({
                "username": username, "password": password.expose(), "serveraddress": serveraddress,
            }),
            Account::IdentityToken(token) => json!({
                "identitytoken": token.expose(), "serveraddress": serveraddress,
            }),
        };
        URL_SAFE.encode(credentials.to_string())
    }
}

/// The registry's address as engines expect it: Docker Hub has a historic one.
pub(in crate::engine) fn server_address(registry: &str) -> &str {
    match registry {
        "docker.io" => "https://index.docker.io/v1/",
        other => other,
    }
}
