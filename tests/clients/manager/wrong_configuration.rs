//! A wrong configuration of the client is refused before anything is sent.

use delegate_upgrader::manager::{
    ClientError, ClientIdentity, Connection, HttpManager, ManagerConfig, ManagerSetupError,
};

fn refusal(config: ManagerConfig) -> ManagerSetupError {
    HttpManager::new(config).unwrap_err()
}

#[test]
fn rejects_wrong_base_url_without_repeating_it() {
    for base in [
        "",
        "app.harness.io",
        "app.harness.io:443",
        "ftp://hunter2.example",
        "file:///hunter2",
        "https://user:hunter2@app.harness.io",
        "https://hunter2@app.harness.io",
        "https://app.harness.io?token=hunter2",
        "https://app.harness.io#hunter2",
        "https://",
        "mailto:hunter2@example",
    ] {
        let error = refusal(ManagerConfig::new(base, "acct", [7; 16], "host-1"));
        assert!(matches!(error, ManagerSetupError::BaseUrl(_)), "{base}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn rejects_invalid_certificates() {
    let config = || ManagerConfig::new("https://m", "acct", [0; 16], "host-1");
    for pem in [
        "",
        "garbage",
        "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
    ] {
        let with_ca = ManagerConfig {
            connection: Connection {
                ca_bundle: Some(pem.into()),
                ..Connection::default()
            },
            ..config()
        };
        let error = refusal(with_ca);
        assert!(
            matches!(error, ManagerSetupError::Client(ClientError::CaBundle(_))),
            "{error}"
        );
        let with_identity = ManagerConfig {
            connection: Connection {
                client_identity: Some(ClientIdentity {
                    certificate: pem.into(),
                    key: pem.into(),
                }),
                ..Connection::default()
            },
            ..config()
        };
        let error = refusal(with_identity);
        assert!(
            matches!(error, ManagerSetupError::Client(ClientError::Identity(_))),
            "{error}"
        );
    }
}
