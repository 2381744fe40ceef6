//! A client of the API server that sends and receives raw JSON, with a time limit of our own around each call.

use std::error::Error;
use std::time::Duration;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::time::timeout;

use crate::managed::Refusal;
use crate::net;
use crate::text::one_line;
use crate::text::redact::Redactor;

/// The limit for a call, including retries: the client repeats calls that are answered with 429, 503 or 504.
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most characters of an API server's message to pass on.
const LONGEST: usize = 400;

/// The content type, the document to send, and what an answer to it must not show.
type Body<'a> = Option<(&'a str, &'a Value, &'a Redactor)>;

/// A patch, and the secrets in it or in the object: a policy may quote them.
pub type Patch<'a> = (&'a Value, &'a Redactor);

/// A connection to the API server, with the account of this pod or of the kubeconfig.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// The namespace of this pod or of the kubeconfig's context.
    pub namespace: String,
}

impl Cluster {
    /// Prepares a connection with the account of this pod, or outside a cluster with the kubeconfig. Sends nothing.
    ///
    /// # Errors
    /// This process is not in a cluster, and there is no usable kubeconfig.
    pub async fn connect() -> Result<Self, Refusal> {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let no_cluster =
            |error: &(dyn Error + 'static)| Refusal::Failed(format!("no cluster: {}", causes(error)));
        let mut config = config().await.map_err(|error| no_cluster(&*error))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(|error| no_cluster(&error))?;
        Ok(Self { client, namespace })
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.json(Method::GET, path, None).await
    }

    /// Creates an object. It is only used to review permissions, which leaves no object behind.
    pub async fn create(&self, path: &str, body: &Value) -> Result<Value, Refusal> {
        let (kind, nothing) = ("application/json", Redactor::default());
        self.json(Method::POST, path, Some((kind, body, &nothing))).await
    }

    /// Changes an object with a strategic merge patch.
    pub async fn patch(&self, path: &str, patch: Patch<'_>) -> Result<Value, Refusal> {
        self.merge(path, "", patch).await
    }

    /// Returns an object as [`Self::patch`] would leave it, after all admission policies, without changing it.
    pub async fn try_patch(&self, path: &str, patch: Patch<'_>) -> Result<Value, Refusal> {
        self.merge(path, "dryRun=All&", patch).await
    }

    /// The API server records the field manager with the fields that are written.
    async fn merge(&self, path: &str, options: &str, (patch, secrets): Patch<'_>) -> Result<Value, Refusal> {
        let path = format!("{path}?{options}fieldManager=delegate-upgrader");
        let kind = "application/strategic-merge-patch+json";
        self.json(Method::PATCH, &path, Some((kind, patch, secrets)))
            .await
    }

    /// Reads plain text, such as a log.
    pub async fn text(&self, path: &str) -> Result<String, Refusal> {
        self.call(Method::GET, path, None).await
    }

    async fn json(&self, method: Method, path: &str, body: Body<'_>) -> Result<Value, Refusal> {
        let text = self.call(method, path, body).await?;
        serde_json::from_str(&text).map_err(|error| unreachable(&error.to_string()))
    }

    async fn call(&self, method: Method, path: &str, body: Body<'_>) -> Result<String, Refusal> {
        let request = Request::builder().method(&method).uri(path);
        let mut request = request.header(USER_AGENT, net::client::USER_AGENT);
        if let Some((kind, ..)) = body {
            request = request.header(CONTENT_TYPE, kind);
        }
        let bytes = body.map(|(_, value, _)| value.to_string().into_bytes());
        let request = request.body(bytes.unwrap_or_default());
        let request = request.map_err(|error| Refusal::Refused(error.to_string()))?;
        let answer = timeout(TIMEOUT, self.client.request_text(request)).await;
        let late = |_| unreachable(&format!("no answer within {} s", TIMEOUT.as_secs()));
        let explain = |error| explain(error, body.map(|(.., secrets)| secrets));
        let answer = answer.map_err(late).and_then(|answer| answer.map_err(explain));
        let outcome = answer
            .as_ref()
            .map_or_else(ToString::to_string, |_| "ok".to_owned());
        tracing::debug!(%method, path, outcome, "asked the API server");
        answer
    }
}

/// Returns how to reach the cluster. The proxy in `HTTPS_PROXY` is not for the API server of a kubeconfig.
async fn config() -> Result<Config, Box<dyn Error>> {
    if is_in_cluster() {
        return Ok(Config::incluster()?);
    }
    let kubeconfig = Kubeconfig::read()?;
    let mut clusters = kubeconfig
        .clusters
        .iter()
        .filter_map(|named| named.cluster.as_ref());
    let has_proxy = clusters.any(|cluster| cluster.proxy_url.is_some());
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url.take_if(|_| !has_proxy);
    Ok(config)
}

/// Whether this process runs in a pod that can reach its cluster.
pub fn is_in_cluster() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty())
}

/// The API server does not answer, or the answer is not that of an API server.
fn unreachable(problem: &str) -> Refusal {
    Refusal::Failed(format!("the API server cannot be reached: {problem}"))
}

fn explain(error: kube::Error, secrets: Option<&Redactor>) -> Refusal {
    let kube::Error::Api(status) = error else {
        return unreachable(&causes(&error));
    };
    let message = secrets.map_or(status.message.clone(), |secrets| secrets.line(&status.message));
    let message = one_line(&message, LONGEST);
    let message = if message.is_empty() {
        format!("it answers with {}", status.code)
    } else {
        message
    };
    match status.code {
        404 => Refusal::NotFound(message),
        // These are the words of admission, which does not apply to reads.
        403 if message.contains(" denied ") => Refusal::Refused(message),
        401 | 403 => Refusal::NotPermitted(message),
        409 => Refusal::Conflict(message),
        429 | 500.. => unreachable(&message),
        _ => Refusal::Refused(message),
    }
}

/// Joins an error and its causes, omitting causes that are already in the text.
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
