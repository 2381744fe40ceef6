//! Registry credentials for pulls: what goes into `X-Registry-Auth`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bollard::auth::DockerCredentials;
use serde_json::json;

use crate::secret::Secret;

/// The header that carries registry credentials to the engine.
pub(super) const HEADER: &str = "X-Registry-Auth";

/// One account, offered to whichever registry a pulled reference names.
#[derive(Clone, Debug)]
pub(super) struct Login {
    username: String,
    password: Secret,
}

impl Login {
    pub(super) fn new(username: String, password: Secret) -> Self {
        Self { username, password }
    }

    /// The credentials as bollard sends them; [`url_safe`] must repair the header it makes of them.
    pub(super) fn credentials(&self, registry: &str) -> DockerCredentials {
        DockerCredentials {
            username: Some(self.username.clone()),
            password: Some(self.password.expose().to_owned()),
            serveraddress: Some(server_address(registry).to_owned()),
            ..DockerCredentials::default()
        }
    }

    /// The value of [`HEADER`] for a request of our own.
    pub(super) fn header(&self, registry: &str) -> String {
        let credentials = json!({
            "username": self.username,
            "password": self.password.expose(),
            "serveraddress": server_address(registry),
        });
        URL_SAFE.encode(credentials.to_string())
    }
}

/// Docker Hub is known to engines by this address and by no other.
fn server_address(registry: &str) -> &str {
    match registry {
        "docker.io" => "https://index.docker.io/v1/",
        other => other,
    }
}

/// From the standard base64 alphabet to the one that engines decode. A credential in the wrong one is dropped in
/// silence, so that only some passwords fail.
pub(super) fn url_safe(header: &str) -> String {
    header.replace('+', "-").replace('/', "_")
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use serde_json::Value;

    use super::*;

    /// Encodes to `+` and `/` in the standard alphabet.
    const AWKWARD: &str = "~>?~~>>??~\u{ff}\u{fe}";

    #[test]
    fn awkward_passwords_reach_the_engine_in_its_own_alphabet() {
        let login = Login::new("ci".to_owned(), Secret::new(AWKWARD));
        let header = login.header("registry.example:5000");
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
        let login = Login::new("ci".to_owned(), Secret::new("p"));
        let address = login.credentials("docker.io").serveraddress;
        assert_eq!(address.as_deref(), Some("https://index.docker.io/v1/"));
    }

    #[test]
    fn a_password_is_never_printed() {
        let login = Login::new("ci".to_owned(), Secret::new("hunter2"));
        assert!(!format!("{login:?}").contains("hunter2"));
    }
}
