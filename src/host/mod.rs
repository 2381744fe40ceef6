//! The host, this program's own container on it, and the holds on replacements there.

pub mod capacity;
pub mod hold;
pub mod place;
pub mod proc;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use crate::container::ContainerId;
use crate::engine::{Engine, EngineError};

/// This program's own container; `None` outside a container. Engines bind files from a directory named after its id.
pub fn own_container() -> Option<ContainerId> {
    proc::own_container(&fs::read_to_string("/proc/self/mountinfo").ok()?).map(ContainerId::new)
}

/// An error of the engine, with advice for an operator.
pub fn engine_problem(error: &EngineError) -> String {
    let advice = match error {
        EngineError::Unreachable(problem) if problem.contains("ermission denied") => socket_advice(),
        EngineError::Unreachable(_) | EngineError::TimedOut(_) => {
            "check that Docker is running, its socket is mounted and this user may use it (DOCKER_HOST)"
        }
        EngineError::Unsupported(_) => {
            "update delegate-upgrader, or set a lower min-api-version in Docker's daemon.json"
        }
        _ => "check that DOCKER_HOST leads to an engine, and that its proxy permits the call",
    };
    format!("{error}; {advice}")
}

/// Advice if this process may not use the engine's socket.
fn socket_advice() -> &'static str {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    proc::socket_advice(&read("/proc/self/uid_map"), &read("/sys/fs/selinux/enforce"))
}

/// The address of a delegate on the host's network, as reached from here: the loopback address on the host's own network, else
/// the default gateway. `None` without a default route.
pub async fn host_address<E: Engine>(engine: &E, own: Option<&ContainerId>) -> Option<IpAddr> {
    let loopback = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let Some(own) = own else { return loopback };
    match engine.inspect(own).await {
        Ok(container) if container.network_mode() == "host" => loopback,
        _ => proc::gateway(&fs::read_to_string("/proc/net/route").ok()?),
    }
}

/// The kernel's host name, or the program's own name if that is empty.
pub fn name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "delegate-upgrader".to_owned(),
        name => name.to_owned(),
    }
}
