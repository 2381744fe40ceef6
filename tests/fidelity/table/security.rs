//! The permissions and the view of a container: capabilities, namespaces, devices.

use serde_json::json;

use crate::row::Row;
use crate::surroundings::{HELPER, Surroundings};

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let mut rows = rights();
    rows.extend(devices());
    rows.extend(namespaces(around));
    rows
}

fn rights() -> Vec<Row> {
    vec![
        host!("privileged", { "Privileged": true }),
        host!("cap add", { "CapAdd": ["NET_ADMIN", "SYS_PTRACE"] }),
        host!("cap add with prefix", { "CapAdd": ["CAP_SYS_TIME"] }),
        host!("cap add all", { "CapAdd": ["ALL"] }),
        host!("cap drop", { "CapDrop": ["MKNOD", "AUDIT_WRITE"] }),
        host!("cap drop all", { "CapDrop": ["ALL"] }),
        host!("no new privileges", { "SecurityOpt": ["no-new-privileges:true"] }),
        host!("seccomp unconfined", { "SecurityOpt": ["seccomp=unconfined"] }),
        host!("seccomp profile", { "SecurityOpt": ["seccomp={\"defaultAction\":\"SCMP_ACT_ALLOW\"}"] }),
        host!("apparmor unconfined", { "SecurityOpt": ["apparmor=unconfined"] }),
        host!("label disable", { "SecurityOpt": ["label=disable"] }),
        host!("system paths unconfined", { "MaskedPaths": [], "ReadonlyPaths": [] }),
        host!("masked paths", { "MaskedPaths": ["/proc/kcore", "/proc/keys"] }),
        host!("readonly paths", { "ReadonlyPaths": ["/proc/bus"] }),
        host!("read only root", { "ReadonlyRootfs": true }),
        host!("group add", { "GroupAdd": ["1234", "999"] }),
        host!("sysctls", { "Sysctls": { "net.ipv4.ip_unprivileged_port_start": "100" } }),
        host!("sysctl of ipc", { "Sysctls": { "kernel.msgmax": "16384" } }),
    ]
}

fn devices() -> Vec<Row> {
    let device = |host: &str, inside: &str, rights: &str| json!({ "PathOnHost": host, "PathInContainer": inside, "CgroupPermissions": rights });
    vec![
        host!("device", { "Devices": [device("/dev/null", "/dev/other", "rwm")] }),
        host!("device with less rights", { "Devices": [device("/dev/zero", "/dev/z", "r")] }),
        host!("device cgroup rules", { "DeviceCgroupRules": ["c 42:* rmw", "b 7:1 r"] }),
        host!("device requests (gpus)", { "DeviceRequests": [{ "Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]] }] }),
        host!("device request (cdi)", { "DeviceRequests": [{ "Driver": "cdi", "DeviceIDs": ["example.com/device=a"] }] }),
    ]
}

fn namespaces(around: &Surroundings) -> Vec<Row> {
    let helper = format!("container:{HELPER}");
    let helper_id = format!("container:{}", around.helper_id);
    vec![
        host!("pid host", { "PidMode": "host" }),
        host!("pid of a container", { "PidMode": helper }),
        host!("ipc host", { "IpcMode": "host" }),
        host!("ipc private", { "IpcMode": "private" }),
        host!("ipc shareable", { "IpcMode": "shareable" }),
        host!("ipc none", { "IpcMode": "none" }),
        host!("ipc of a container", { "IpcMode": helper }),
        host!("uts host", { "UTSMode": "host" }),
        host!("userns host", { "UsernsMode": "host" }),
        host!("cgroupns host", { "CgroupnsMode": "host" }),
        host!("cgroupns private", { "CgroupnsMode": "private" }),
        host!("cgroup of a container", { "Cgroup": helper }),
        host!("runtime", { "Runtime": "io.containerd.runc.v2" }),
        host!("runtime runc", { "Runtime": "runc" }),
        host!("network host", { "NetworkMode": "host" }),
        host!("network none", { "NetworkMode": "none" }),
        row!("network of a container", { "Env": ["PORT=3461"], "HostConfig": { "NetworkMode": helper } }),
        row!("network of a container by id", { "Env": ["PORT=3462"], "HostConfig": { "NetworkMode": helper_id } }),
        row!("network of a container, image with ports", { "Env": ["PORT=3464"], "HostConfig": { "NetworkMode": helper } })
        .rich(),
        row!("network and ipc of a container", { "Env": ["PORT=3465"], "HostConfig": { "NetworkMode": helper, "IpcMode": helper } }),
        row!("uts and network of the host", { "Env": ["PORT=3466"], "HostConfig": { "UTSMode": "host", "NetworkMode": "host" } }),
        row!("privileged, pid and network of the host", {
            "Env": ["PORT=3463"],
            "HostConfig": { "Privileged": true, "PidMode": "host", "NetworkMode": "host" },
        }),
    ]
}
