//! How much of the machine a container may have.

use serde_json::json;

use crate::row::Row;
use crate::surroundings::Surroundings;

const MIB: u64 = 1 << 20;

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let mut rows = memory();
    rows.extend(processor());
    rows.extend(block_devices(&around.disk));
    rows.extend(others());
    rows
}

fn memory() -> Vec<Row> {
    vec![
        Row::host("memory", json!({ "Memory": 128 * MIB })),
        Row::host(
            "memory and swap",
            json!({ "Memory": 128 * MIB, "MemorySwap": 192 * MIB }),
        ),
        Row::host(
            "memory, swap without limit",
            json!({ "Memory": 128 * MIB, "MemorySwap": -1 }),
        ),
        Row::host("memory reservation", json!({ "MemoryReservation": 64 * MIB })),
        Row::host("memory swappiness", json!({ "MemorySwappiness": 10 })),
        Row::host("kernel memory", json!({ "KernelMemory": 64 * MIB })),
        Row::host("kernel memory of tcp", json!({ "KernelMemoryTCP": 64 * MIB })),
        Row::host(
            "oom kill disable",
            json!({ "OomKillDisable": true, "Memory": 128 * MIB }),
        ),
        Row::host("oom score adjust", json!({ "OomScoreAdj": 321 })),
        Row::host("shm size", json!({ "ShmSize": 32 * MIB })),
    ]
}

fn processor() -> Vec<Row> {
    vec![
        Row::host("cpu shares", json!({ "CpuShares": 512 })),
        Row::host(
            "cpu quota and period",
            json!({ "CpuQuota": 60_000, "CpuPeriod": 50_000 }),
        ),
        Row::host("cpus", json!({ "NanoCpus": 1_500_000_000 })),
        Row::host("cpuset cpus", json!({ "CpusetCpus": "0" })),
        Row::host("cpuset mems", json!({ "CpusetMems": "0" })),
        Row::host("cpu realtime period", json!({ "CpuRealtimePeriod": 1_000_000 })),
        Row::host("cpu realtime runtime", json!({ "CpuRealtimeRuntime": 950_000 })),
        Row::host("cpu count", json!({ "CpuCount": 1 })),
        Row::host("cpu percent", json!({ "CpuPercent": 50 })),
    ]
}

fn block_devices(disk: &str) -> Vec<Row> {
    let rate = |rate: u64| json!([{ "Path": disk, "Rate": rate }]);
    vec![
        Row::host("blkio weight", json!({ "BlkioWeight": 300 })),
        Row::host(
            "blkio weight of a device",
            json!({ "BlkioWeightDevice": [{ "Path": disk, "Weight": 200 }] }),
        ),
        Row::host("device read bps", json!({ "BlkioDeviceReadBps": rate(MIB) })),
        Row::host(
            "device write bps",
            json!({ "BlkioDeviceWriteBps": rate(2 * MIB) }),
        ),
        Row::host("device read iops", json!({ "BlkioDeviceReadIOps": rate(1000) })),
        Row::host("device write iops", json!({ "BlkioDeviceWriteIOps": rate(2000) })),
    ]
}

fn others() -> Vec<Row> {
    vec![
        Row::host("pids limit", json!({ "PidsLimit": 100 })),
        Row::host("pids limit -1", json!({ "PidsLimit": -1 })),
        Row::host(
            "ulimit nofile",
            json!({ "Ulimits": [{ "Name": "nofile", "Soft": 1024, "Hard": 2048 }] }),
        ),
        Row::host(
            "ulimits nproc and core",
            json!({ "Ulimits": [
                { "Name": "nproc", "Soft": 500, "Hard": 500 }, { "Name": "core", "Soft": 0, "Hard": 0 },
            ] }),
        ),
        Row::host("storage option size", json!({ "StorageOpt": { "size": "1G" } })),
        Row::host("cgroup parent", json!({ "CgroupParent": "/fidelity-parent" })),
    ]
}
