//! The variables that belong together: those of the Manager, registry logins, the proxy and certificates, and the engine.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::reader::{Reader, one_file, own};
use super::variables::{Environment, Variable};
use super::{Egress, ManagerSettings, ProxySettings, Source};
use super::{no_proxy, parse};
use crate::engine::{ConfigFile, Credentials, EngineHost, StaticCredentials};
use crate::image::{ImageReference, TargetSettings, Version};
use crate::manager::DelegateToken;
use crate::net::certificates;
use crate::net::dns::Resolver;
use crate::text::secret::Secret;

/// Refuses a version alone, which would otherwise be the name of an image.
fn published_image(text: &str) -> Result<ImageReference, String> {
    let stock = format!("harness/delegate:{text}");
    if stock.parse().is_ok_and(|stock| Version::of(&stock).is_some()) {
        return Err(format!("write {stock}"));
    }
    parse::image(text)
}

pub(super) fn source(reader: &mut Reader, env: &Environment, health_only: bool) -> Option<Source> {
    let manager = [&env.account_id, &env.manager_host_and_port, &env.upgrader_token];
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

    let account = |text: &str| match text.find('/') {
        Some(_) => Err("it has a slash, as an address has".to_owned()),
        None => parse::name(text),
    };
    let account_id = reader.read(&env.account_id, account);
    let base_url = reader.read(&env.manager_host_and_port, parse::manager_url);
    if let (Some(url), Some(text)) = (&base_url, env.manager_host_and_port.get())
        && !text.contains("://")
    {
        let warning = format!("it has no scheme; using {url}");
        reader.problems.warn(&env.manager_host_and_port, warning);
    }
    let token = reader.secret(&env.upgrader_token, |text| {
        DelegateToken::parse(text).ok_or_else(|| "its value (not shown) is not a token".to_owned())
    });
    if token.is_none() {
        reader.problems.missing(env.upgrader_token.row);
    }
    Some(Source::Manager(ManagerSettings {
        account_id: account_id?,
        base_url: base_url?,
        token: token?,
    }))
}

/// Reads the registry logins. With a mirror or a custom repository, the given login is for their registries only.
pub(super) fn credentials(reader: &mut Reader, env: &Environment, target: &TargetSettings) -> Credentials {
    let own = login(reader, &env.registry_username, &env.registry_password);
    let own = own.map(|(username, password)| StaticCredentials {
        username,
        password,
        registries: target.own_registries(),
    });
    let named = env.docker_config.get().map(PathBuf::from);
    let is_named = named.is_some();
    let file = named.or_else(|| docker_home(env)).map(|directory| {
        reader.note(&env.docker_config, directory.display());
        ConfigFile {
            path: directory.join("config.json"),
            named: is_named,
        }
    });
    Credentials { own, file }
}

/// A user name and a password. One without the other is a problem.
fn login(reader: &mut Reader, user: &Variable, password: &Variable) -> Option<(String, Secret)> {
    let secret = reader.secret(password, |text| Ok(Secret::new(text)));
    match (reader.text(user), secret) {
        (Some(user), Some(password)) => return Some((user, password)),
        (Some(_), None) => reader.problems.missing_beside(password.row, user),
        (None, Some(_)) => reader.problems.missing_beside(user.row, password),
        (None, None) => {}
    }
    None
}

/// The directory of the configuration of Docker's clients.
fn docker_home(env: &Environment) -> Option<PathBuf> {
    env.home.get().map(|home| Path::new(home).join(".docker"))
}

pub(super) fn egress(reader: &mut Reader, env: &Environment) -> Egress {
    let proxy = proxy(reader, env);
    let no_proxy = reader.text(&env.no_proxy).map(|text| {
        let (exceptions, odd) = no_proxy::parse(&text);
        for problem in odd {
            reader.problems.warn(&env.no_proxy, problem);
        }
        exceptions
    });
    let ca_bundle = reader.file(
        &env.ca_bundle,
        certificates::read_bundle,
        certificates::authorities,
    );
    Egress {
        proxy: proxy.filter(|_| !no_proxy.as_deref().is_some_and(no_proxy::is_all)),
        no_proxy,
        ca_bundle: ca_bundle.map(|(path, _)| path),
        client_identity: identity(reader, env),
        resolver: Resolver::default(),
    }
}

/// The mTLS client certificate file and its key file.
fn identity(reader: &mut Reader, env: &Environment) -> Option<(PathBuf, PathBuf)> {
    let certificate = reader.file(&env.client_cert, one_file, certificates::chain);
    let key = reader.file(&env.client_key, one_file, certificates::signing_key);
    for (missing, given) in [
        (&env.client_cert, &env.client_key),
        (&env.client_key, &env.client_cert),
    ] {
        if given.is_set() && !missing.is_set() {
            reader.problems.missing_beside(missing.row, given);
        }
    }
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

/// The proxy, given as one URL or in its parts.
fn proxy(reader: &mut Reader, env: &Environment) -> Option<ProxySettings> {
    let is_used = reader.flag(&env.proxy_manager);
    let scheme = reader.value(&env.proxy_scheme, parse::proxy_scheme);
    let port = reader.read(&env.proxy_port, parse::port);
    let login = login(reader, &env.proxy_user, &env.proxy_password);
    if env.proxy_host.is_set() {
        reader.unused(&[&env.https_proxy], ", since PROXY_HOST is set");
        let host = reader.read(&env.proxy_host, |text| parse::host(own(text)?))?;
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        return is_used.then_some(ProxySettings {
            url: format!("{scheme}://{host}{port}"),
            login,
        });
    }
    let parts = [
        &env.proxy_scheme,
        &env.proxy_port,
        &env.proxy_user,
        &env.proxy_password,
    ];
    if let Some(part) = parts.into_iter().find(|part| part.is_set()) {
        reader.problems.missing_beside(env.proxy_host.row, part);
    }
    reader.read_as(&env.https_proxy, parse::proxy, |proxy| match &proxy.login {
        Some(_) => proxy.url.replacen("://", "://***@", 1),
        None => proxy.url.clone(),
    })
}

/// Reads `DOCKER_HOST`, `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH` as Docker's own clients do, except that TLS always
/// verifies the engine's certificate.
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

/// Whether other hosts may reach an address: not a loopback address, nor a name without a dot, as in a container network.
fn is_open(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    let ip = host.parse::<IpAddr>();
    ip.map_or(host.contains('.'), |ip| !ip.is_loopback())
}

/// The directory of the client's certificate: `DOCKER_CERT_PATH`, or else the directory of Docker's configuration.
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
