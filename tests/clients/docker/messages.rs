//! The meaning of engines' messages. Each sentence is exactly as the named engines wrote it.

use delegate_upgrader::container::{ContainerId, Inspected};
use delegate_upgrader::engine::{Engine as _, EngineError};
use delegate_upgrader::health;
use serde_json::json;

use super::scripted::{ScriptedEngine, refusal};

const CONNECTED: &str = "endpoint with name nolog already exists in network n1";

fn refused(status: u16, message: &str) -> EngineError {
    EngineError::Refused {
        status,
        message: message.to_owned(),
    }
}

fn in_stream(message: &str) -> EngineError {
    refused(200, message)
}

#[test]
fn recognises_the_refusal_to_rename_a_container_to_its_own_name() {
    // 20.10.24
    assert!(refused(400, "Renaming a container with the same name as its current name").is_own_name());
    assert!(!refused(409, "Conflict. The container name is already in use").is_own_name());
}

#[test]
fn a_leftover_task_is_distinguished_from_a_leftover_endpoint() {
    for message in [
        // 20.10.24
        "task 51e72aebaade8d144f15af78491616d71b582aaafe84e4892ac4e0ab27315833: already exists",
        // runc 1.1
        "failed to create shim task: OCI runtime create failed: runc create failed: container with given ID \
             already exists: unknown",
        // 20.10, by its source
        "id already in use",
    ] {
        assert!(refused(500, message).is_leftover_task(), "{message}");
        assert!(!EngineError::Conflict(message.to_owned()).is_leftover_task());
    }
    for message in [
        CONNECTED,
        "driver failed programming external connectivity on endpoint d1: Bind for 0.0.0.0:3460 failed: port is already \
         allocated",
        "Conflict. The container name \"/d1\" is already in use by container \"f00\". You have to remove (or rename) \
         that container to be able to reuse that name.",
        "error while creating mount source path '/x': mkdir /x: file already exists",
    ] {
        assert!(!refused(500, message).is_leftover_task(), "{message}");
        let is_endpoint = message == CONNECTED;
        assert_eq!(
            refused(403, message).is_leftover_endpoint(),
            is_endpoint,
            "{message}"
        );
    }
}

#[test]
#[rustfmt::skip]
fn does_not_blame_the_image_for_a_missing_companion() {
    let missing = [
        (409, "cannot join network of a non running container: 2b68c996"),
        (404, "No such container: 2b68c996"),
        (500, "Cannot link to a non running container: /comp AS /xb/db"),
        (500, "can't join IPC of container 2b68c996: container 2b68c996 is not running"),
        (500, "container 2b68c996 is not running"),
        (500, "cannot join PID of a non running container: 2b68c996: No such container: 2b68c996"),
    ];
    for (status, message) in missing {
        let error = match status {
            404 => EngineError::NotFound(message.to_owned()),
            409 => EngineError::Conflict(message.to_owned()),
            _ => refused(status, message),
        };
        assert!(error.is_dependency_missing(), "{message}");
    }
    for message in [
        CONNECTED,
        "network nn not found",
        "OCI runtime create failed: exec: \"x\": executable file not found in $PATH: unknown",
    ] {
        assert!(!refused(500, message).is_dependency_missing(), "{message}");
    }
    assert!(!EngineError::Unreachable("No such container".to_owned()).is_dependency_missing());
}

#[test]
fn an_abandoned_start_says_nothing_about_the_container() {
    let ending = |error: &str| {
        let document = json!({ "Id": "1", "State": { "Status": "exited", "ExitCode": 3, "Error": error } });
        health::ending(&Inspected::new(document).unwrap())
    };
    for message in [
        // 26.1.5
        "context canceled",
        // 26.1, in the middle of a create
        "failed to create task for container: context canceled",
    ] {
        assert_eq!(ending(message), "exited with code 3", "{message}");
    }
    let not_found = "exec: \"x\": executable file not found in $PATH: unknown";
    assert_eq!(ending(not_found), format!("exited with code 3: {not_found}"));
}

#[tokio::test]
#[rustfmt::skip]
async fn renegotiates_the_api_version_with_a_different_engine() {
    for (message, times) in [
        // 20.10.24
        ("client version 1.99 is too new. Maximum supported API version is 1.41", 2),
        // 28.5.2
        (
            "client version 1.10 is too old. Minimum supported API version is 1.24, please upgrade your client to a \
             newer version",
            2,
        ),
        ("invalid reference format", 1),
    ] {
        let engine = ScriptedEngine::start(move |_| refusal(400, message)).await;
        for _ in 0..2 {
            assert!(engine.docker.containers().await.is_err());
        }
        let calls = engine.calls();
        let asked = calls.iter().filter(|call| call.line == "GET /version").count();
        assert_eq!(asked, times, "{message}");
    }
}

#[tokio::test]
#[rustfmt::skip]
async fn a_refusal_because_nothing_is_left_to_do_is_success() {
    let id = ContainerId::new("f00");
    for (call, status, message, is_success) in [
        // 20.10.24, 26.1.5, 28.5.2
        ("remove", 409, "removal of container nolog is already in progress", true),
        ("remove", 409, "You cannot remove a running container f00. Stop the container before attempting removal or force remove", false),
        // 20.10.24, 26.1.5, 28.5.2
        ("connect", 403, CONNECTED, true),
        // Podman 5.8.6
        ("connect", 403, "container bf46 is already connected to network n1: network is already connected", true),
        ("connect", 403, "container sharing network namespace with another container or host cannot be connected to any other network", false),
        // 20.10.24, 26.1.5, 28.5.2
        ("logs", 500, "configured logging driver does not support reading", true),
        // Podman 5.8.6
        (
            "logs",
            500,
            "failed to obtain logs for Container 'nolog': this container is using the 'none' log driver, cannot read \
             logs: this container is not logging output",
            true,
        ),
        ("logs", 500, "the log is broken", false),
    ] {
        let engine = ScriptedEngine::start(move |_| refusal(status, message)).await;
        let outcome = match call {
            "remove" => engine.docker.remove(&id).await,
            "connect" => engine.docker.connect("n1", &id, &json!({})).await,
            _ => engine.docker.logs(&id, 10).await.map(|log| assert_eq!(log, "")),
        };
        assert_eq!(outcome.is_ok(), is_success, "{call}: {message}");
        assert!(outcome.err().is_none_or(|error| error.to_string().contains(message)), "{call}");
    }
}

#[test]
fn recognises_errors_that_a_login_would_fix() {
    for message in [
        // Docker Hub
        "pull access denied for x, repository does not exist or may require 'docker login'",
        // 20.10
        "Head https://r.example/v2/x/manifests/1: no basic auth credentials",
        // distribution
        "Head https://r.example/v2/x/manifests/1: unauthorized: authentication required",
        // the containerd store
        "failed to resolve reference \"r.example/x:1\": failed to authorize: failed to fetch oauth token: unexpected status \
             from GET request to https://r.example/token: 400 Bad Request",
        "failed to resolve reference \"r.example/x:1\": unexpected status from HEAD request to \
             https://r.example/v2/x/manifests/1: 403 Forbidden",
        "server message: insufficient_scope: authorization failed",
        // ECR
        "denied: Your authorization token has expired. Reauthenticate and try again.",
        // 20.10, an insecure registry with TLS
        "error parsing HTTP 400 response body: \"Client sent an HTTP request to an HTTPS server.\\n\"",
    ] {
        let explained = in_stream(message).explain("r.example");
        let advice = format!("{message}; put a login for r.example into REGISTRY_USERNAME");
        assert!(explained.starts_with(&advice), "{explained}");
    }
    for message in [
        "open /var/lib/docker/tmp/GetImageBlob1: permission denied",
        "manifest for 127.0.0.1:5000/x:1 not found: manifest unknown: manifest unknown",
        "Get \"https://r.example/v2/\": dial tcp: lookup r.example: no such host",
    ] {
        assert_eq!(in_stream(message).explain("r.example"), message);
    }
    for other in [
        EngineError::Unauthorized("unauthorized; its helper is missing".to_owned()),
        EngineError::Unreachable("permission denied: docker.sock".to_owned()),
    ] {
        assert_eq!(other.explain("r.example"), other.to_string());
    }
}

#[test]
fn a_full_disk_is_explained() {
    let message = "failed to register layer: write /usr/lib/x: no space left on device";
    assert_eq!(
        in_stream(message).explain("r.example"),
        format!("the engine's disk is full: {message}")
    );
}

#[test]
fn taken_port_is_distinguished_from_a_taken_address() {
    for message in [
        // 20.10.24, 26.1.5, 28.5.2
        "driver failed programming external connectivity on endpoint d1: Bind for 0.0.0.0:3460 failed: port is \
             already allocated",
        // 20.10 to 28.5, by their sources
        "driver failed programming external connectivity on endpoint d1: all ports are allocated",
        // 20.10 to 27, by their sources
        "driver failed programming external connectivity on endpoint d1: Error starting userland proxy: listen tcp4 \
             0.0.0.0:3460: bind: address already in use",
        // Docker 28.5, according to its source code
        "driver failed programming external connectivity on endpoint d1: failed to bind host port for \
             0.0.0.0:3460:172.17.0.2:3460/tcp: address already in use",
    ] {
        assert!(refused(500, message).is_port_taken(), "{message}");
    }
    for message in [CONNECTED, "Address already in use", "no such program"] {
        assert!(!refused(500, message).is_port_taken(), "{message}");
    }
}

const RUNC: &str = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: ";

#[test]
fn refused_start_is_explained_in_plain_words() {
    for explained in [
        // Docker 20.10.24 with runc 1.1.5, as it answered.
        "its entrypoint does not exist in the image: {RUNC}exec: \"/nonexistent\": stat /nonexistent: no \
         such file or directory: unknown",
        "its entrypoint does not exist in the image: {RUNC}exec: \"nonexistent\": executable file not found \
         in $PATH: unknown",
        "its entrypoint is not executable: {RUNC}exec: \"/plain\": permission denied: unknown",
        "its user does not exist in the image: unable to find user nobodyhere: no matching entries in \
         passwd file",
        "its group does not exist in the image: unable to find group nogrouphere: no matching entries in \
         group file",
        "its network has no free address: no available IPv4 addresses on this network's address pools: tiny \
         (7e24842ee9cf40e8)",
        "its fixed address is taken: Address already in use",
        "the source of one of its bind mounts is missing on the host: invalid mount config for type \
         \"bind\": bind source path does not exist: /srv/gone",
        "a port that it publishes is taken: driver failed programming external connectivity on endpoint d1 \
         (57a55289): Bind for 127.0.0.1:7777 failed: \
             port is already allocated",
        "its runtime is not installed on this host: Unknown runtime specified nvidia",
        // 26.1.5, 28.5.2
        "its runtime is not installed on this host: unknown or invalid runtime name: nvidia",
        "its entrypoint is not executable: {RUNC}exec: \"/bin\": is a directory: unknown: permission denied",
        "its entrypoint does not exist in the image: {RUNC}error during container init: exec: \
         \"/nonexistent\": stat /nonexistent: no such file or directory",
        "a device that it needs is missing on this host: error gathering device information while adding \
         custom device \"/dev/gone\": no such file or directory",
        "the driver of a device that it needs is missing on this host: could not select device driver \"\" \
         with capabilities: [[gpu]]",
        // Reports about 28 and 29, and about NVIDIA's runtime.
        "the driver of a device that it needs is missing on this host: failed to discover GPU vendor from CDI: no known \
         GPU vendor found",
        "a device that it needs is missing on this host: CDI device injection failed: unresolvable CDI devices \
         nvidia.com/gpu=all",
        "a device that it needs is missing on this host: failed to create task for container: failed to create shim \
         task: OCI runtime create failed: could not apply required modification to OCI specification: error modifying \
         OCI spec: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=0: unknown",
        "the driver of a device that it needs is missing on this host: {RUNC}error running prestart hook #0: exit \
         status 1, stdout: , stderr: nvidia-container-cli: initialization error: nvml error: driver not loaded",
    ] {
        let expected = explained.replace("{RUNC}", RUNC);
        let (_, message) = expected.split_once(": ").unwrap();
        for status in [400, 500] {
            assert_eq!(refused(status, message).explain_start(), expected);
        }
    }
}

/// A wrong explanation would be worse than none: these messages name a path, but not a program.
#[test]
fn shows_other_refused_starts_in_the_engines_words() {
    for message in [
        format!(
            "{RUNC}error during container init: open /proc/sys/net/gone: no such file or directory: unknown"
        ),
        format!(
            "{RUNC}error during container init: error mounting \"/srv/file\" to rootfs at \"/bin\": mount \
             /srv/file:/bin (via /proc/self/fd/6), flags: 0x5000: not a directory: unknown"
        ),
        format!("{RUNC}error during container init: error mounting \"proc\": permission denied: unknown"),
        "failed to initialize logging driver: dial tcp 127.0.0.1:9: connect: connection refused".to_owned(),
        "network gone not found".to_owned(),
    ] {
        assert_eq!(refused(400, &message).explain_start(), message);
    }
    let lost = EngineError::Unreachable("connection refused".to_owned());
    assert_eq!(lost.explain_start(), lost.to_string());
}

/// Docker answers 400 to all errors of runc, so the status alone does not tell whether the image or the host is at fault.
#[test]
fn retries_a_refused_start_that_may_be_the_engines_fault() {
    for message in [
        format!(
            "{RUNC}error during container init: error running hook #0: error running hook: exit status 1"
        ),
        "OCI runtime state failed: runc did not terminate successfully: exit status 1: unknown".to_owned(),
        format!("{RUNC}unable to apply cgroup configuration: device or resource busy: unknown"),
        "failed to create shim task: context deadline exceeded: unknown".to_owned(),
        "task 51e72aebaade: already exists".to_owned(),
        CONNECTED.to_owned(),
        "driver failed programming external connectivity on endpoint d1: all ports are allocated".to_owned(),
    ] {
        assert!(refused(400, &message).is_about_the_engine(), "{message}");
    }
    for message in [
        format!("{RUNC}exec: \"/nonexistent\": stat /nonexistent: no such file or directory: unknown"),
        // The entrypoint's name decides nothing.
        format!("{RUNC}exec: \"/hook\": permission denied: unknown"),
        "invalid mount config for type \"bind\": bind source path does not exist: /srv/gone".to_owned(),
        "network gone not found".to_owned(),
    ] {
        assert!(!refused(400, &message).is_about_the_engine(), "{message}");
    }
}
