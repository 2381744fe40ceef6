//! Every call that is made to an engine, and what each is for. `doctor` probes them, the documentation lists them.

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Health checks, and so everything.
    HealthChecks,
    /// The replacement of a delegate.
    Upgrades,
    /// The replacement of some delegates, or a report: the work goes on without it.
    Optional(&'static str),
    /// This setting, and nothing without it.
    Setting(&'static str),
}

/// A call of the engine's API.
#[derive(Clone, Copy, Debug)]
pub struct ApiCall {
    /// `GET`, `HEAD`, `POST`, `DELETE`.
    pub method: &'static str,
    /// The path below the API version, with `{id}` for a container and `{name}` for an image or a network.
    pub path: &'static str,
    /// What it is for.
    pub purpose: Purpose,
    /// Whether health checks make it too, to compare what a mutable tag refers to. They go on without it.
    pub compares_tags: bool,
}

const fn call(method: &'static str, path: &'static str, purpose: Purpose) -> ApiCall {
    ApiCall {
        method,
        path,
        purpose,
        compares_tags: false,
    }
}

const fn comparing_tags(call: ApiCall) -> ApiCall {
    ApiCall {
        compares_tags: true,
        ..call
    }
}

/// What the calls are for that compare tags.
pub const MUTABLE_TAGS: &str = "mutable tags";

/// The setting that restarts unhealthy delegates.
pub const HEALTH_ACTION_RESTART: &str = "HEALTH_ACTION=restart";

/// The setting that runs commands in containers.
pub const HEALTH_PROBE_EXEC: &str = "HEALTH_PROBE=exec";

/// Every call. No other is made.
pub const API_CALLS: [ApiCall; 26] = [
    call("GET", "/version", Purpose::HealthChecks),
    call("GET", "/containers/json", Purpose::HealthChecks),
    call("GET", "/containers/{id}/json", Purpose::HealthChecks),
    comparing_tags(call("GET", "/images/{name}/json", Purpose::Upgrades)),
    call("POST", "/images/create", Purpose::Upgrades),
    call("POST", "/containers/create", Purpose::Upgrades),
    call("POST", "/containers/{id}/start", Purpose::Upgrades),
    call("POST", "/containers/{id}/stop", Purpose::Upgrades),
    call("POST", "/containers/{id}/rename", Purpose::Upgrades),
    call("POST", "/containers/{id}/update", Purpose::Upgrades),
    call("DELETE", "/containers/{id}", Purpose::Upgrades),
    call(
        "POST",
        "/networks/{name}/connect",
        Purpose::Optional("delegates on several networks, below API 1.44"),
    ),
    call(
        "POST",
        "/containers/{id}/kill",
        Purpose::Optional("stops, on engines 23.0 to 24.0.2"),
    ),
    call(
        "POST",
        "/containers/{id}/restart",
        Purpose::Setting(HEALTH_ACTION_RESTART),
    ),
    call(
        "POST",
        "/containers/{id}/exec",
        Purpose::Setting(HEALTH_PROBE_EXEC),
    ),
    call("POST", "/exec/{id}/start", Purpose::Setting(HEALTH_PROBE_EXEC)),
    call("GET", "/exec/{id}/json", Purpose::Setting(HEALTH_PROBE_EXEC)),
    comparing_tags(call(
        "GET",
        "/distribution/{name}/json",
        Purpose::Optional(MUTABLE_TAGS),
    )),
    call(
        "GET",
        "/containers/{id}/logs",
        Purpose::Optional("the last log lines of rejected candidates"),
    ),
    call(
        "GET",
        "/containers/{id}/stats",
        Purpose::Optional("the memory of delegates without a limit"),
    ),
    call(
        "GET",
        "/containers/{id}/changes",
        Purpose::Optional("files that Compose copied in"),
    ),
    call(
        "HEAD",
        "/containers/{id}/archive",
        Purpose::Optional("files that Compose copied in"),
    ),
    call(
        "GET",
        "/events",
        Purpose::Optional("whether somebody stopped a container"),
    ),
    call(
        "GET",
        "/info",
        Purpose::Optional("free space on the engine's disk"),
    ),
    call(
        "DELETE",
        "/images/{name}",
        Purpose::Optional("the images of replaced and rejected containers"),
    ),
    call(
        "GET",
        "/v1.51/containers/{id}/json",
        Purpose::Optional("a MAC address that the owner chose, from API 1.52"),
    ),
];
