//! The API server: raw JSON in, raw JSON out, and one time-out of ours around each call.

use std::error::Error;
use std::time::Duration;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use kube::Client;
use kube::config::{Config, KubeConfigOptions};
use serde_json::Value;
use tokio::time::timeout;

use crate::net;
use crate::text::one_line;

/// How long a call may take, with all that the client tries again: it repeats what was answered with 429, 503 or 504.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest message of the API server that is passed on, in characters.
const LONGEST: usize = 400;

/// Why the API server did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The account may not do that.
    #[error("{0}")]
    Forbidden(String),
    /// Another client changed the object in between.
    #[error("{0}")]
    Conflict(String),
    /// A policy refuses it, or it is not valid: the same request gets the same answer.
    #[error("{0}")]
    Refused(String),
    /// It does not answer, or not as one.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// It refuses what it did before: it has no permissions yet when it has just started.
    #[error("the API server refuses what it did before, as one that has just started: {0}")]
    Starting(String),
    /// There is neither a cluster around this process nor a kubeconfig that can be used.
    #[error("no cluster: {0}")]
    NoCluster(String),
}

/// The content type and the document to send.
type Body<'a> = Option<(&'a str, &'a Value)>;

/// A connection to the API server, as the account of this pod or of the kubeconfig.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    /// Connects as the account of this pod, or elsewhere as the kubeconfig says. It is not called yet.
    ///
    /// # Errors
    /// [`ClusterError::NoCluster`].
    pub async fn connect() -> Result<Self, ClusterError> {
        // Its error is that one is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = if is_in_cluster() {
            Config::incluster().map_err(|error| ClusterError::NoCluster(causes(&error)))?
        } else {
            let config = Config::from_kubeconfig(&KubeConfigOptions::default()).await;
            config.map_err(|error| ClusterError::NoCluster(causes(&error)))?
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(|error| ClusterError::NoCluster(causes(&error)))?;
        Ok(Self { client, namespace })
    }

    /// The namespace of this pod, or of the kubeconfig's context.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, ClusterError> {
        self.json(Method::GET, path, None).await
    }

    /// Creates an object: a review of permissions, which leaves nothing behind.
    pub async fn create(&self, path: &str, body: &Value) -> Result<Value, ClusterError> {
        self.json(Method::POST, path, Some(("application/json", body)))
            .await
    }

    /// Changes an object by a strategic merge patch.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value, ClusterError> {
        let path = format!("{path}?fieldManager={}", super::FIELD_MANAGER);
        let kind = "application/strategic-merge-patch+json";
        self.json(Method::PATCH, &path, Some((kind, patch))).await
    }

    /// Reads a text, such as a log.
    pub async fn text(&self, path: &str) -> Result<String, ClusterError> {
        self.call(Method::GET, path, None).await
    }

    async fn json(&self, method: Method, path: &str, body: Body<'_>) -> Result<Value, ClusterError> {
        let text = self.call(method, path, body).await?;
        serde_json::from_str(&text).map_err(|error| ClusterError::Unreachable(error.to_string()))
    }

    async fn call(&self, method: Method, path: &str, body: Body<'_>) -> Result<String, ClusterError> {
        let request = Request::builder().method(&method).uri(path);
        let mut request = request.header(USER_AGENT, net::client::USER_AGENT);
        if let Some((kind, _)) = body {
            request = request.header(CONTENT_TYPE, kind);
        }
        let bytes = body.map(|(_, value)| value.to_string().into_bytes());
        let request = request.body(bytes.unwrap_or_default());
        let request = request.map_err(|error| ClusterError::Refused(error.to_string()))?;
        let answer = timeout(TIMEOUT, self.client.request_text(request)).await;
        let answer = match answer {
            Ok(answer) => answer.map_err(explain),
            Err(_) => Err(ClusterError::Unreachable(format!(
                "no answer within {} s",
                TIMEOUT.as_secs()
            ))),
        };
        let outcome = answer
            .as_ref()
            .map_or_else(ToString::to_string, |_| "ok".to_owned());
        tracing::debug!(%method, path, outcome, "asked the API server");
        answer
    }
}

/// Whether this process runs in a pod that is to talk to its cluster.
pub fn is_in_cluster() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty())
}

fn explain(error: kube::Error) -> ClusterError {
    let kube::Error::Api(status) = error else {
        return ClusterError::Unreachable(causes(&error));
    };
    let message = one_line(&status.message, LONGEST);
    let message = if message.is_empty() {
        format!("it answers with {}", status.code)
    } else {
        message
    };
    match status.code {
        404 => ClusterError::NotFound(message),
        // In the words of admission, which takes no part in reading.
        403 if message.contains(" denied ") => ClusterError::Refused(message),
        401 | 403 => ClusterError::Forbidden(message),
        409 => ClusterError::Conflict(message),
        429 | 500.. => ClusterError::Unreachable(message),
        _ => ClusterError::Refused(message),
    }
}

/// An error with the causes that it does not repeat.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in net::causes(error).map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    one_line(&text, LONGEST)
}
