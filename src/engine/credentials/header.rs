//! Registry credentials on their way to the engine: the header `X-Registry-Auth`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bollard::auth::DockerCredentials;
use serde_json::json;

use crate::text::secret::Secret;

/// The header that carries registry credentials to the engine.
pub(in crate::engine) const HEADER: &str = "X-Registry-Auth";

/// The account that pulls.
#[derive(Clone, Debug)]
pub(in crate::engine) enum Account {
    /// A user name with its password or access token.
    Password {
        /// The user name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// The token that `docker login` got in place of a password.
    IdentityToken(Secret),
}

/// An account at one registry.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Login {
    account: Account,
    registry: String,
}

impl Login {
    pub(in crate::engine) fn new(account: Account, registry: &str) -> Self {
        Self {
            account,
            registry: registry.to_owned(),
        }
    }

    #[cfg(test)]
    pub(in crate::engine) fn account(&self) -> &Account {
        &self.account
    }

    /// The credentials as bollard sends them; [`url_safe`] must repair the header it makes of them.
    pub(in crate::engine) fn credentials(&self) -> DockerCredentials {
        let serveraddress = Some(server_address(&self.registry).to_owned());
        match &self.account {
            Account::Password { username, password } => DockerCredentials {
                username: Some(username.clone()),
                password: Some(password.expose().to_owned()),
                serveraddress,
                ..DockerCredentials::default()
            },
            Account::IdentityToken(token) => DockerCredentials {
                identitytoken: Some(token.expose().to_owned()),
                serveraddress,
                ..DockerCredentials::default()
            },
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

/// From the standard base64 alphabet to the one that engines decode. They silently drop a credential in the wrong one, so
/// that only some passwords fail.
pub(in crate::engine) fn url_safe(header: &str) -> String {
    header.replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;

    use super::*;

    /// Encodes to `+` and `/` in the standard alphabet.
    const AWKWARD: &str = "~>?~~>>??~\u{ff}\u{fe}";

    fn login(password: &str, registry: &str) -> Login {
        let account = Account::Password {
            username: "ci".to_owned(),
            password: Secret::new(password),
        };
        Login::new(account, registry)
    }

    #[test]
    fn an_identity_token_goes_alone() {
        let login = Login::new(Account::IdentityToken(Secret::new("tok")), "r.example");
        let decoded: Value = serde_json::from_slice(&URL_SAFE.decode(login.header()).unwrap()).unwrap();
        assert_eq!(
            decoded,
            json!({ "identitytoken": "tok", "serveraddress": "r.example" })
        );
        assert_eq!(login.credentials().identitytoken.as_deref(), Some("tok"));
    }

    #[test]
    fn awkward_passwords_reach_the_engine_in_its_own_alphabet() {
        let header = login(AWKWARD, "registry.example:5000").header();
        assert!(!header.contains(['+', '/']), "{header}");
        let decoded: Value = serde_json::from_slice(&URL_SAFE.decode(&header).unwrap()).unwrap();
        assert_eq!(decoded["password"], AWKWARD);
        assert_eq!(decoded["serveraddress"], "registry.example:5000");
    }

    #[test]
    fn a_header_in_the_standard_alphabet_is_repaired() {
        let plain = format!(r#"{{"password":"{AWKWARD}"}}"#);
        let standard = STANDARD.encode(&plain);
        assert!(
            standard.contains(['+', '/']),
            "the case must be one that fails without the repair"
        );
        assert_eq!(URL_SAFE.decode(url_safe(&standard)).unwrap(), plain.as_bytes());
    }

    #[test]
    fn docker_hub_has_its_historic_address() {
        let address = login("p", "docker.io").credentials().serveraddress;
        assert_eq!(address.as_deref(), Some("https://index.docker.io/v1/"));
    }

    #[test]
    fn a_password_is_never_printed() {
        let token = Login::new(Account::IdentityToken(Secret::new("hunter2")), "r.example");
        let shown = format!("{:?} {token:?}", login("hunter2", "r.example"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
