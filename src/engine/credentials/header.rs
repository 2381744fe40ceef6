//! The `X-Registry-Auth` header, which carries registry credentials to the engine.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::json;

use crate::text::secret::Secret;

/// The header that carries registry credentials to the engine.
pub(in crate::engine) const HEADER: &str = "X-Registry-Auth";

/// The account to pull with.
#[derive(Clone, Debug)]
pub(in crate::engine) enum Account {
    /// A user name with its password or access token.
    Password { username: String, password: Secret },
    /// The token that `docker login` received instead of a password.
    IdentityToken(Secret),
}

impl Account {
    /// Returns the value of [`HEADER`] for a request about an image of this registry.
    pub(in crate::engine) fn header(&self, registry: &str) -> String {
        let serveraddress = server_address(registry);
        let credentials = match self {
            Self::Password { username, password } => json!({
                "username": username, "password": password.expose(), "serveraddress": serveraddress,
            }),
            Self::IdentityToken(token) => json!({
                "identitytoken": token.expose(), "serveraddress": serveraddress,
            }),
        };
        URL_SAFE.encode(credentials.to_string())
    }
}

/// Returns the address of the registry in the form that engines expect. For Docker Hub that is a historic address.
pub(in crate::engine) fn server_address(registry: &str) -> &str {
    match registry {
        "docker.io" => "https://index.docker.io/v1/",
        other => other,
    }
}
