//! The variables that belong together: the Manager, registry logins, the proxy and certificates, the engine.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::reader::{Given, Reader};
use super::variables::{Environment, Variable};
use super::{DockerConfig, Egress, ManagerSettings, Notifications, ProxySettings, RegistryLogin, Source};
use super::{no_proxy, parse};
use crate::engine::EngineHost;
use crate::image::{ImageReference, ReferenceError, Version};
use crate::manager::DelegateToken;
use crate::net::certificates;
use crate::text::secret::Secret;

/// A version alone would be an image of that name.
fn published_image(text: &str) -> Result<ImageReference, String> {
    let stock = format!("harness/delegate:{text}");
    if stock.parse().is_ok_and(|stock| Version::of(&stock).is_some()) {
        return Err(format!("write {stock}"));
    }
    text.parse()
        .map_err(|error: ReferenceError| error.problem().to_string())
}

pub(super) fn source(reader: &mut Reader, env: &Environment, health_only: bool) -> Option<Source> {
    let manager = [
        &env.account_id,
        &env.manager_host_and_port,
        &env.upgrader_token,
        &env.upgrader_token_file,
    ];
    let is_given = |variable: &Variable| variable.is_set() || reader.problems.names(variable.row);
    let any_given = manager.into_iter().any(is_given);
    if is_given(&env.published_image) {
        if any_given {
            let warning = "replaces the Manager, whose variables are not used";
            reader.problems.warn(&env.published_image, warning);
        }
        return reader
            .read(&env.published_image, published_image)
            .map(Source::Fixed);
    }
    if health_only && !any_given {
        return Some(Source::None);
    }

    let account_id = reader.read(&env.account_id, parse::name);
    let base_url = reader.read(&env.manager_host_and_port, parse::manager_url);
    if let (Some(url), Some(text)) = (&base_url, env.manager_host_and_port.get())
        && !text.contains("://")
    {
        let warning = format!("it has no scheme; using {url}");
        reader.problems.warn(&env.manager_host_and_port, warning);
    }
    let token = match reader.secret(
        &env.upgrader_token,
        &env.upgrader_token_file,
        &env.credentials_directory,
    ) {
        Given::Value(value, variable) => {
            let token = DelegateToken::parse(value.expose());
            if token.is_none() {
                reader
                    .problems
                    .wrong(variable.row, "its value (not shown) is not a token");
            }
            token
        }
        Given::Wrong => None,
        Given::Not => {
            reader.problems.missing(env.upgrader_token.row);
            None
        }
    };
    Some(Source::Manager(ManagerSettings {
        account_id: account_id?,
        base_url: base_url?,
        token: token?,
    }))
}

pub(super) fn registry(reader: &mut Reader, env: &Environment) -> Option<RegistryLogin> {
    let username = reader.text(&env.registry_username);
    let password = reader.secret(
        &env.registry_password,
        &env.registry_password_file,
        &env.credentials_directory,
    );
    match (username, password) {
        (Some(username), Given::Value(password, _)) => return Some(RegistryLogin { username, password }),
        (Some(_), Given::Not) => reader
            .problems
            .missing_beside(env.registry_password.row, &env.registry_username),
        (None, Given::Value(_, variable)) => {
            reader
                .problems
                .missing_beside(env.registry_username.row, variable);
        }
        _ => {}
    }
    None
}

pub(super) fn docker_auth_config(reader: &mut Reader, env: &Environment) -> Option<Secret> {
    let variable = &env.docker_auth_config;
    let text = variable.get()?;
    // The logins in it are read with each question to a registry, as those of a config.json.
    if serde_json::from_str::<Map<String, Value>>(text).is_err() {
        reader.problems.wrong(variable.row, "it is not a JSON object");
        return None;
    }
    reader.note(variable, "(set)");
    Some(Secret::new(text))
}

pub(super) fn docker_config(reader: &mut Reader, env: &Environment) -> Option<DockerConfig> {
    let named = env.docker_config.get().map(PathBuf::from);
    let is_named = named.is_some();
    let directory = named.or_else(|| docker_home(env))?;
    reader.note(&env.docker_config, directory.display());
    Some(DockerConfig { directory, is_named })
}

/// Where Docker's clients keep their configuration.
fn docker_home(env: &Environment) -> Option<PathBuf> {
    env.home.get().map(|home| Path::new(home).join(".docker"))
}

pub(super) fn egress(
    reader: &mut Reader,
    env: &Environment,
    source: Option<&Source>,
    notifications: &Notifications,
) -> Egress {
    let manager = match source {
        Some(Source::Manager(manager)) => Some(manager.base_url.as_str()),
        _ => None,
    };
    let webhook = notifications.webhook.as_ref().map(|webhook| &webhook.url);
    let receivers = webhook.into_iter().chain(&notifications.deadman);
    let urls = manager.into_iter().chain(receivers.map(Secret::expose));
    let (https_proxy, http_proxy) = proxies(reader, env, &urls.collect::<Vec<_>>());
    let no_proxy = reader.text(&env.no_proxy).map(|text| {
        let (exceptions, odd) = no_proxy::parse(&text);
        for problem in odd {
            reader.problems.warn(&env.no_proxy, problem);
        }
        exceptions
    });
    let ca_bundle = reader.bundle(&env.ca_bundle, certificates::authorities);
    let (client_cert, client_key) = identity(reader, env).unzip();
    Egress {
        https_proxy,
        http_proxy,
        no_proxy,
        ca_bundle: ca_bundle.map(|(path, _)| path),
        client_cert,
        client_key,
    }
}

/// The files of the certificate for mTLS and of its key.
fn identity(reader: &mut Reader, env: &Environment) -> Option<(PathBuf, PathBuf)> {
    let certificate = reader.file(&env.client_cert, certificates::chain);
    let key = reader.file(&env.client_key, certificates::signing_key);
    both_or_neither(reader, &env.client_cert, &env.client_key);
    let ((cert_path, chain), (key_path, key)) = certificate.zip(key)?;
    match certificates::identity(chain, key, env.client_cert.row.name) {
        Ok(_) => Some((cert_path, key_path)),
        Err(why) => {
            let given = format!("{}: {why}", key_path.display());
            reader.problems.wrong(env.client_key.row, given);
            None
        }
    }
}

fn both_or_neither(reader: &mut Reader, left: &Variable, right: &Variable) {
    for (missing, given) in [(left, right), (right, left)] {
        if given.is_set() && !missing.is_set() {
            reader.problems.missing_beside(missing.row, given);
        }
    }
}

/// The proxies for `https://` and for `http://`. Of `HTTPS_PROXY` and `HTTP_PROXY` those are read that a URL needs.
fn proxies(
    reader: &mut Reader,
    env: &Environment,
    urls: &[&str],
) -> (Option<ProxySettings>, Option<ProxySettings>) {
    let scheme = reader.value(&env.proxy_scheme, parse::proxy_scheme);
    let port = reader.read(&env.proxy_port, parse::port);
    let password = reader.secret(
        &env.proxy_password,
        &env.proxy_password_file,
        &env.credentials_directory,
    );
    let password_variable = match &password {
        Given::Value(_, variable) => *variable,
        Given::Wrong | Given::Not => &env.proxy_password,
    };
    both_or_neither(reader, &env.proxy_user, password_variable);
    let has_plain = urls.iter().any(|url| parse::is_plain(url)) && env.http_proxy.is_set();
    let all_plain = has_plain && urls.iter().all(|url| parse::is_plain(url));
    let wholes = [(&env.https_proxy, !all_plain), (&env.http_proxy, has_plain)];
    if env.proxy_host.is_set() {
        for (whole, _) in wholes.iter().filter(|(_, is_needed)| *is_needed) {
            reader.unused(&[whole], ", since PROXY_HOST is set");
        }
        let Some(host) = reader.read(&env.proxy_host, parse::host) else {
            return (None, None);
        };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let proxy = ProxySettings {
            url: format!("{scheme}://{host}{port}"),
            username: reader.text(&env.proxy_user),
            password: match password {
                Given::Value(password, _) => Some(password),
                Given::Wrong | Given::Not => None,
            },
        };
        return (Some(proxy.clone()), Some(proxy));
    }
    let mut parts = [
        &env.proxy_scheme,
        &env.proxy_port,
        &env.proxy_user,
        &env.proxy_password,
        &env.proxy_password_file,
    ]
    .into_iter();
    if let Some(part) = parts.find(|part| part.is_set()) {
        reader.problems.missing_beside(env.proxy_host.row, part);
    }
    let [https, http] = wholes.map(|(whole, needed)| {
        let shown = |proxy: &ProxySettings| match &proxy.username {
            Some(_) => proxy.url.replacen("://", "://***@", 1),
            None => proxy.url.clone(),
        };
        needed
            .then(|| reader.read_as(whole, parse::proxy, shown))
            .flatten()
    });
    let http = if has_plain { http } else { https.clone() };
    (https, http)
}

/// As Docker's own clients read `DOCKER_HOST`, `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH`, except that the engine's
/// certificate is verified whenever there is one.
pub(super) fn engine(reader: &mut Reader, env: &Environment) -> Option<EngineHost> {
    let scheme = env.docker_host.get().and_then(|text| text.split_once("://"));
    let tls = match scheme.map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
        Some("https") => true,
        Some("tcp" | "http") => env.docker_tls_verify.is_set() || env.docker_cert_path.is_set(),
        _ => false,
    };
    let directory = if tls {
        certificate_directory(reader, env)
    } else {
        None
    };
    let engine = reader.read(&env.docker_host, |text| parse::engine(text, tls, directory));
    if let Some(EngineHost::Tcp { address, tls: None }) = &engine
        && is_open(address)
    {
        let warning = "without TLS, everybody who reaches that port controls its host; set DOCKER_TLS_VERIFY=1, or use a socket proxy";
        reader.problems.warn(&env.docker_host, warning);
    }
    engine
}

/// Whether others may reach an address: not this host itself, nor a name without a dot, as a container network has it.
fn is_open(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    let ip = host.parse::<IpAddr>();
    ip.map_or(host.contains('.'), |ip| !ip.is_loopback())
}

/// The directory of the client's certificate: `DOCKER_CERT_PATH`, else where Docker keeps its configuration.
fn certificate_directory(reader: &mut Reader, env: &Environment) -> Option<PathBuf> {
    if let Some(text) = reader.text(&env.docker_tls_verify)
        && parse::boolean(&text) == Ok(false)
    {
        reader.problems.warn(
            &env.docker_tls_verify,
            "any value turns TLS verification on, as in every Docker client",
        );
    }
    let directory = [&env.docker_cert_path, &env.docker_config]
        .into_iter()
        .find_map(Variable::get)
        .map(PathBuf::from)
        .or_else(|| docker_home(env));
    let Some(directory) = directory else {
        reader
            .problems
            .wrong(env.docker_cert_path.row, "not set, and TLS is on");
        return None;
    };
    match certificates::of_docker(&directory) {
        Ok(_) => {
            reader.note(&env.docker_cert_path, directory.display());
            Some(directory)
        }
        Err(wrong) => {
            reader.problems.wrong(env.docker_cert_path.row, wrong.join(", "));
            None
        }
    }
}
