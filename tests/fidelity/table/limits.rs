//! The share of the machine that a container may use.

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
        host!("memory", { "Memory": 128 * MIB }),
        host!("memory and swap", { "Memory": 128 * MIB, "MemorySwap": 192 * MIB }),
        host!("memory, swap without limit", { "Memory": 128 * MIB, "MemorySwap": -1 }),
        host!("memory reservation", { "MemoryReservation": 64 * MIB }),
        host!("memory swappiness", { "MemorySwappiness": 10 }),
        host!("kernel memory", { "KernelMemory": 64 * MIB }),
        host!("kernel memory of tcp", { "KernelMemoryTCP": 64 * MIB }),
        host!("oom kill disable", { "OomKillDisable": true, "Memory": 128 * MIB }),
        host!("oom score adjust", { "OomScoreAdj": 321 }),
        host!("shm size", { "ShmSize": 32 * MIB }),
    ]
}

fn processor() -> Vec<Row> {
    vec![
        host!("cpu shares", { "CpuShares": 512 }),
        host!("cpu quota and period", { "CpuQuota": 60_000, "CpuPeriod": 50_000 }),
        host!("cpus", { "NanoCpus": 1_500_000_000 }),
        host!("cpuset cpus", { "CpusetCpus": "0" }),
        host!("cpuset mems", { "CpusetMems": "0" }),
        host!("cpu realtime period", { "CpuRealtimePeriod": 1_000_000 }),
        host!("cpu realtime runtime", { "CpuRealtimeRuntime": 950_000 }),
        host!("cpu count", { "CpuCount": 1 }),
        host!("cpu percent", { "CpuPercent": 50 }),
    ]
}

fn block_devices(disk: &str) -> Vec<Row> {
    let rate = |rate: u64| json!([{ "Path": disk, "Rate": rate }]);
    vec![
        host!("blkio weight", { "BlkioWeight": 300 }),
        host!("blkio weight of a device", { "BlkioWeightDevice": [{ "Path": disk, "Weight": 200 }] }),
        host!("device read bps", { "BlkioDeviceReadBps": rate(MIB) }),
        host!("device write bps", { "BlkioDeviceWriteBps": rate(2 * MIB) }),
        host!("device read iops", { "BlkioDeviceReadIOps": rate(1000) }),
        host!("device write iops", { "BlkioDeviceWriteIOps": rate(2000) }),
    ]
}

fn others() -> Vec<Row> {
    vec![
        host!("pids limit", { "PidsLimit": 100 }),
        host!("pids limit -1", { "PidsLimit": -1 }),
        host!("ulimit nofile", { "Ulimits": [{ "Name": "nofile", "Soft": 1024, "Hard": 2048 }] }),
        host!("ulimits nproc and core", { "Ulimits": [
            { "Name": "nproc", "Soft": 500, "Hard": 500 }, { "Name": "core", "Soft": 0, "Hard": 0 },
        ] }),
        host!("storage option size", { "StorageOpt": { "size": "1G" } }),
        host!("cgroup parent", { "CgroupParent": "/fidelity-parent" }),
    ]
}
