//! Mounts of every kind.

use serde_json::{Value, json};

use crate::row::Row;
use crate::surroundings::{HELPER, Surroundings, VOLUME};

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let mut rows = binds(around);
    rows.extend(volumes(around));
    rows.extend(mounts(around));
    rows
}

fn binds(around: &Surroundings) -> Vec<Row> {
    let directory = &around.directory;
    let shared = &around.shared;
    let bind = |options: &str| json!({ "Binds": [format!("{directory}:/bind{options}")] });
    vec![
        Row::host("bind", bind("")),
        Row::host("bind read only", bind(":ro")),
        Row::host("bind rprivate", bind(":rprivate")),
        Row::host("bind relabelled", bind(":z")),
        Row::host(
            "bind rslave",
            json!({ "Binds": [format!("{shared}:/bind:rslave")] }),
        ),
        Row::host(
            "bind rshared",
            json!({ "Binds": [format!("{shared}:/bind:ro,rshared")] }),
        ),
        Row::host(
            "binds of a file and of a new directory",
            json!({ "Binds": [
            format!("{directory}/file:/file:ro"), format!("{directory}/made-by-the-engine:/made"),
        ] }),
        ),
        Row::host(
            "bind of the engine's socket",
            json!({ "Binds": ["/var/run/docker.sock:/var/run/docker.sock"] }),
        ),
    ]
}

fn volumes(around: &Surroundings) -> Vec<Row> {
    vec![
        Row::host("named volume", json!({ "Binds": [format!("{VOLUME}:/volume")] })),
        Row::host(
            "named volume read only, nocopy",
            json!({ "Binds": [format!("{VOLUME}:/volume:ro,nocopy")] }),
        ),
        Row::host(
            "named volume made by its use",
            json!({ "Binds": ["fid-volume-made:/volume"] }),
        ),
        Row::host("anonymous volume by bind", json!({ "Binds": ["/anonymous"] })),
        Row::new("anonymous volume", json!({ "Volumes": { "/anonymous": {} } })),
        Row::new(
            "anonymous volume at the image's",
            json!({ "Volumes": { "/image-volume": {} } }),
        )
        .rich(),
        Row::host(
            "named volume at the image's",
            json!({ "Binds": [format!("{VOLUME}:/image-volume")] }),
        )
        .rich(),
        Row::host(
            "tmpfs at the image's volume",
            json!({ "Tmpfs": { "/image-volume": "size=1m" } }),
        )
        .rich(),
        Row::host("volumes from", json!({ "VolumesFrom": [HELPER] })),
        Row::host(
            "volumes from, by id",
            json!({ "VolumesFrom": [around.helper_id] }),
        ),
        Row::host(
            "volumes from, read only",
            json!({ "VolumesFrom": [format!("{HELPER}:ro")] }),
        ),
        Row::host(
            "volumes from, image with a volume",
            json!({ "VolumesFrom": [HELPER] }),
        )
        .rich(),
        Row::host("tmpfs", json!({ "Tmpfs": { "/scratch": "" } })),
        Row::host(
            "tmpfs with options",
            json!({ "Tmpfs": { "/scratch": "rw,noexec,size=65536k,mode=1770" } }),
        ),
    ]
}

fn mounts(around: &Surroundings) -> Vec<Row> {
    let (directory, shared) = (&around.directory, &around.shared);
    let mount = |title, mount: Value| Row::host(title, json!({ "Mounts": [mount] }));
    let volume = |options: Value| json!({ "Type": "volume", "Source": VOLUME, "Target": "/mounted", "VolumeOptions": options });
    let tmpfs = |options: Value| json!({ "Type": "tmpfs", "Target": "/mounted", "TmpfsOptions": options });
    let bind = |read_only: bool, options: Value| {
        json!({
            "Type": "bind", "Source": directory, "Target": "/mounted", "ReadOnly": read_only, "BindOptions": options,
        })
    };
    vec![
        mount("mount bind", bind(false, json!({}))),
        mount("mount bind read only", bind(true, json!({}))),
        mount(
            "mount bind private",
            bind(false, json!({ "Propagation": "private" })),
        ),
        mount(
            "mount bind not recursive",
            bind(false, json!({ "NonRecursive": true })),
        ),
        mount(
            "mount bind read only, not recursively so",
            bind(true, json!({ "ReadOnlyNonRecursive": true })),
        ),
        mount(
            "mount bind read only, recursively so",
            bind(
                true,
                json!({ "ReadOnlyForceRecursive": true, "Propagation": "rprivate" }),
            ),
        ),
        mount(
            "mount bind makes its source",
            json!({
                "Type": "bind", "Source": format!("{directory}/made-by-a-mount"), "Target": "/mounted",
                "BindOptions": { "CreateMountpoint": true },
            }),
        ),
        mount(
            "mount bind rshared",
            json!({
                "Type": "bind", "Source": shared, "Target": "/mounted", "BindOptions": { "Propagation": "rshared" },
            }),
        ),
        mount(
            "mount bind consistency",
            json!({
                "Type": "bind", "Source": directory, "Target": "/mounted", "Consistency": "cached",
            }),
        ),
        mount("mount volume", volume(json!({}))),
        mount("mount volume no copy", volume(json!({ "NoCopy": true }))),
        mount("mount volume subpath", volume(json!({ "Subpath": "sub/path" }))),
        mount(
            "mount volume with labels and driver",
            json!({
                "Type": "volume", "Source": "fid-volume-labelled", "Target": "/mounted", "ReadOnly": true,
                "VolumeOptions": { "Labels": { "a": "b" }, "DriverConfig": { "Name": "local" } },
            }),
        ),
        mount(
            "mount volume of a driver with options",
            json!({
                "Type": "volume", "Source": "fid-volume-tmpfs", "Target": "/mounted",
                "VolumeOptions": { "DriverConfig": { "Name": "local", "Options": {
                    "type": "tmpfs", "device": "tmpfs", "o": "size=1m",
                } } },
            }),
        ),
        mount(
            "mount anonymous volume",
            json!({ "Type": "volume", "Target": "/mounted" }),
        ),
        mount(
            "mount anonymous volume with labels",
            json!({
                "Type": "volume", "Target": "/mounted", "VolumeOptions": { "Labels": { "a": "b" } },
            }),
        ),
        mount("mount tmpfs", tmpfs(json!({}))),
        mount(
            "mount tmpfs size and mode",
            tmpfs(json!({ "SizeBytes": 1_048_576, "Mode": 1000 })),
        ),
        mount("mount tmpfs options", tmpfs(json!({ "Options": [["noexec"]] }))),
        mount(
            "mount image",
            json!({ "Type": "image", "Source": around.plain[0], "Target": "/mounted" }),
        ),
        mount(
            "mount cluster volume",
            json!({ "Type": "cluster", "Source": "none", "Target": "/mounted" }),
        ),
        mount(
            "mount of a pipe",
            json!({ "Type": "npipe", "Source": "a", "Target": "/mounted" }),
        ),
        Row::host(
            "binds, mounts and tmpfs together",
            json!({
                "Binds": [format!("{VOLUME}:/a:ro"), format!("{directory}:/b"), "/c"],
                "Mounts": [{ "Type": "volume", "Target": "/d" }, { "Type": "tmpfs", "Target": "/e" }],
                "Tmpfs": { "/f": "" },
            }),
        )
        .rich(),
    ]
}
