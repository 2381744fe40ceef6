//! The place of this program, for messages to operators: the host's name, and how to type a command there.

use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::timeout;

use super::{name, own_container};
use crate::container::Role;
use crate::engine::Engine;

/// The settings file of the package's service.
pub const SERVICE_FILE: &str = "/etc/delegate-upgrader/delegate-upgrader.env";
/// The longest delay of the start by a slow engine.
const PATIENCE: Duration = Duration::from_secs(5);

const NAME: &str = "delegate-upgrader";
/// `LISTEN_ADDR` in the Dockerfile.
const IMAGE_ADDRESS: &str = "0.0.0.0:9464";

static PLACE: OnceLock<Place> = OnceLock::new();

#[derive(Debug)]
struct Place {
    host: String,
    program: String,
    is_cluster: bool,
    /// Whether this program's container shares the host's network.
    is_in_hosts_network: bool,
}

/// Asks the engine once. The host name of a container, or of this machine if the engine `is_remote`, is not the host's.
pub async fn learn<E: Engine>(engine: &E, is_remote: bool) {
    let own = own_container();
    let mut place = Place {
        host: name(),
        program: program(None, Path::new(SERVICE_FILE).exists()),
        is_cluster: false,
        is_in_hosts_network: false,
    };
    let asked = async {
        if own.is_none() && !is_remote {
            return;
        }
        if let Ok(identity) = engine.identity().await
            && let Some(host) = identity.split_whitespace().last()
        {
            host.clone_into(&mut place.host);
        }
        if let Some(own) = own
            && let Ok(container) = engine.inspect(&own).await
        {
            place.is_in_hosts_network = container.network_mode() == "host";
            // A container for a single command disappears after it.
            if !container.flag("/HostConfig/AutoRemove")
                && let Ok(info) = engine.info().await
            {
                let client = if info.is_podman { "podman" } else { "docker" };
                place.program = program(Some((client, container.name())), false);
            }
        }
    };
    let _ = timeout(PATIENCE, asked).await;
    let _ = PLACE.set(place);
}

/// Notes that the delegates are Deployments of a cluster.
pub fn note_cluster() {
    let _ = PLACE.set(Place {
        host: name(),
        program: NAME.to_owned(),
        is_cluster: true,
        is_in_hosts_network: false,
    });
}

/// The warning if the image's own `LISTEN_ADDR`, which is for a network of the container's own, shows the page to the host's network.
pub fn open_page(listen: SocketAddr) -> Option<String> {
    let is_open = listen.to_string() == IMAGE_ADDRESS && PLACE.get()?.is_in_hosts_network;
    let port = listen.port();
    is_open.then(|| {
        format!(
            "LISTEN_ADDR: {listen}, the image's default, shows the page to everyone who reaches this host, whose network the container \
             shares; set LISTEN_ADDR=127.0.0.1:{port}"
        )
    })
}

/// Whether the delegates are Deployments of a cluster.
pub fn is_cluster() -> bool {
    PLACE.get().is_some_and(|place| place.is_cluster)
}

/// How commands of this program start: with the engine's client in a container, with `sudo` for the package's service.
fn program(container: Option<(&str, &str)>, is_service: bool) -> String {
    if let Some((client, name)) = container {
        // An upgrader's candidate later takes the name without the suffix.
        let (name, _) = Role::parse(name);
        return format!(
            "{client} exec {name} {}",
            shortest(env::current_exe().ok(), env::var_os("PATH"))
        );
    }
    let sudo = if is_service { "sudo " } else { "" };
    format!("{sudo}{NAME}")
}

/// The program's name if `docker exec` finds it on PATH, else its full path.
fn shortest(program: Option<PathBuf>, path: Option<OsString>) -> String {
    let Some(program) = program else {
        return NAME.to_owned();
    };
    let is_found = |directory: PathBuf| directory.join(NAME) == program;
    if path.is_some_and(|path| env::split_paths(&path).any(is_found)) {
        return NAME.to_owned();
    }
    program.display().to_string()
}

/// The host's name, from the engine if [`learn`] has asked it.
pub fn host() -> String {
    PLACE.get().map_or_else(name, |place| place.host.clone())
}

/// A command of this program, as typed on the host.
pub fn command(arguments: &str) -> String {
    let program = PLACE.get().map_or(NAME, |place| &place.program);
    format!("{program} {arguments}")
}

/// The command line that applies `verb` to one delegate, or to all if `delegate` is empty; in a cluster, to the file's Deployments.
pub fn command_for(verb: &str, delegate: &str) -> String {
    if is_cluster() {
        command(&format!("kubernetes {verb}"))
    } else {
        command(format!("{verb} {delegate}").trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_commands_work_on_the_host() {
        assert_eq!(program(None, false), "delegate-upgrader");
        assert_eq!(program(None, true), "sudo delegate-upgrader");
        let path = env::current_exe().unwrap();
        for name in ["upgrader", "upgrader.candidate"] {
            let expected = format!("podman exec upgrader {}", path.display());
            assert_eq!(program(Some(("podman", name)), false), expected);
        }
        let shortest = |program: &str| shortest(Some(program.into()), Some("/usr/bin:/".into()));
        assert_eq!(shortest("/delegate-upgrader"), "delegate-upgrader");
        assert_eq!(shortest("/opt/delegate-upgrader"), "/opt/delegate-upgrader");
        assert_eq!(command("retry d1"), "delegate-upgrader retry d1");
    }
}
