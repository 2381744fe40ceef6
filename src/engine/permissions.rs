//! Lists every call to an engine, with its purpose. `doctor` probes the calls, and the documentation lists them.

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Health checks. Everything depends on them.
    HealthChecks,
    /// The replacement of a delegate.
    Upgrades,
    /// The replacement of some delegates, or a report. The upgrader works without the call.
    Optional(&'static str),
    /// This setting. Without the setting the call is not made.
    Setting(&'static str),
}

/// A call in the engine's API.
#[derive(Clone, Copy, Debug)]
pub struct ApiCall {
    /// `GET`, `HEAD`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The path after the API version, with `{id}` for a container and `{name}` for an image or a network.
    pub path: &'static str,
    /// The name of the call in metrics.
    pub operation: &'static str,
    /// The purpose of the call.
    pub purpose: Purpose,
    /// Whether health checks also make this call, to compare the targets of mutable tags. They work without it.
    pub compares_tags: bool,
}

const fn call(
    method: &'static str,
    path: &'static str,
    operation: &'static str,
    purpose: Purpose,
) -> ApiCall {
    ApiCall {
        method,
        path,
        operation,
        purpose,
        compares_tags: false,
    }
}

impl ApiCall {
    /// Whether this is the call for a path, given without version and query.
    fn is_to(&self, path: &str) -> bool {
        match self.path.split_once('{') {
            None => path == self.path,
            Some((begin, rest)) => {
                let (_, end) = rest.split_once('}').unwrap_or_default();
                path.len() > begin.len() + end.len() && path.starts_with(begin) && path.ends_with(end)
            }
        }
    }
}

/// Returns the metric name of a call such as `GET /v1.41/containers/json?all=1`.
pub(super) fn operation(call: &str) -> &'static str {
    let (method, rest) = call.split_once(' ').unwrap_or_default();
    let path = rest.split('?').next().unwrap_or_default();
    let is_version = |rest: &&str| rest.starts_with(|first: char| first.is_ascii_digit());
    let versioned = path.strip_prefix("/v").filter(is_version);
    let path = versioned.map_or(path, |rest| rest.trim_start_matches(|c| c != '/'));
    let mut known = API_CALLS.iter();
    let found = known.find(|known| known.method == method && known.is_to(path));
    found.map_or("other", |known| known.operation)
}

/// The purpose of the calls that compare tags.
pub const MUTABLE_TAGS: &str = "mutable tags";

/// The setting that makes the upgrader restart unhealthy delegates.
pub const HEALTH_ACTION_RESTART: &str = "HEALTH_ACTION=restart";

/// The setting that makes the upgrader run commands in containers.
pub const HEALTH_PROBE_EXEC: &str = "HEALTH_PROBE=exec";

/// The purpose of the calls about a Swarm. If the engine is not a manager, only the first of them is made.
pub const SWARM: &str = "services of a Swarm";

const TAGS: Purpose = Purpose::Optional(MUTABLE_TAGS);
const NETWORKS: Purpose = Purpose::Optional("delegates on several networks, below API 1.44");
const STOPS: Purpose = Purpose::Optional("stops, on engines 23.0 to 24.0.2");
const RESTART: Purpose = Purpose::Setting(HEALTH_ACTION_RESTART);
const EXEC: Purpose = Purpose::Setting(HEALTH_PROBE_EXEC);
const EVIDENCE: Purpose = Purpose::Optional("the last log lines of rejected candidates");
const MEMORY: Purpose = Purpose::Optional("the memory of delegates without a limit");
const COPIED_FILES: Purpose = Purpose::Optional("files that Compose copied in");
const CHANGES: Purpose = Purpose::Optional("changes as they happen");
const MACHINE: Purpose = Purpose::Optional("free space on the engine's disk, its memory, the host's name");
const OLD_IMAGES: Purpose = Purpose::Optional("the images of replaced and rejected containers");
/// The commands and settings that store data on the engine. The data is read before a replacement starts.
const RECORDS: Purpose = Purpose::Optional("`pause`, `UPGRADE_DELAY`, `UPGRADE_WAVE`, records of rejections");
const SERVICES: Purpose = Purpose::Optional(SWARM);

/// Every call that the upgrader makes.
pub const API_CALLS: [ApiCall; 32] = [
    call("GET", "/version", "version", Purpose::HealthChecks),
    call("GET", "/containers/json", "list", Purpose::HealthChecks),
    call("GET", "/containers/{id}/json", "inspect", Purpose::HealthChecks),
    ApiCall {
        compares_tags: true,
        ..call("GET", "/images/{name}/json", "inspect_image", Purpose::Upgrades)
    },
    call("POST", "/images/create", "pull", Purpose::Upgrades),
    call("POST", "/containers/create", "create", Purpose::Upgrades),
    call("POST", "/containers/{id}/start", "start", Purpose::Upgrades),
    call("POST", "/containers/{id}/stop", "stop", Purpose::Upgrades),
    call("POST", "/containers/{id}/rename", "rename", Purpose::Upgrades),
    call("POST", "/containers/{id}/update", "update", Purpose::Upgrades),
    call("DELETE", "/containers/{id}", "remove", Purpose::Upgrades),
    call("POST", "/networks/{name}/connect", "connect", NETWORKS),
    call("POST", "/containers/{id}/kill", "kill", STOPS),
    call("POST", "/containers/{id}/restart", "restart", RESTART),
    call("POST", "/containers/{id}/exec", "exec_create", EXEC),
    call("POST", "/exec/{id}/start", "exec_start", EXEC),
    call("GET", "/exec/{id}/json", "exec_inspect", EXEC),
    ApiCall {
        compares_tags: true,
        ..call("GET", "/distribution/{name}/json", "registry_digest", TAGS)
    },
    call("GET", "/containers/{id}/logs", "logs", EVIDENCE),
    call("GET", "/containers/{id}/stats", "stats", MEMORY),
    call("GET", "/containers/{id}/changes", "changes", COPIED_FILES),
    call("HEAD", "/containers/{id}/archive", "archive", COPIED_FILES),
    call("GET", "/events", "events", CHANGES),
    call("GET", "/info", "info", MACHINE),
    call("DELETE", "/images/{name}", "remove_image", OLD_IMAGES),
    call("GET", "/volumes", "volumes", RECORDS),
    call("POST", "/volumes/create", "create_volume", RECORDS),
    call("DELETE", "/volumes/{name}", "remove_volume", RECORDS),
    call("GET", "/services", "services", SERVICES),
    call("GET", "/tasks", "tasks", SERVICES),
    call("GET", "/nodes", "nodes", SERVICES),
    call("POST", "/services/{id}/update", "update_service", SERVICES),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_call_maps_to_an_operation() {
        for call in API_CALLS {
            let id = call.path.replace("{id}", "0123456789ab");
            let path = id.replace("{name}", "registry.example:5000/harness/delegate:26.03.1");
            let line = format!("{} /v1.41{path}?all=1", call.method);
            assert_eq!(operation(&line), call.operation, "{line}");
        }
        assert_eq!(operation("GET /version"), "version");
        assert_eq!(
            operation("POST /images/create?fromImage=harness/delegate:1"),
            "pull"
        );
        assert_eq!(operation("POST /swarm/init"), "other");
        assert_eq!(operation(""), "other");
    }
}
