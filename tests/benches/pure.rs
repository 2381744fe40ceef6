//! The cost of the pure parts on documents of a real engine: time, and allocations.
//!
//! `cargo bench --bench pure`

#![expect(
    clippy::expect_used,
    reason = "a benchmark that cannot go on says why and ends"
)]

use std::fs;
use std::path::Path;

use chrono::{DateTime, Utc};
use delegate_upgrader::container::{ApiVersion, Inspected, label};
use delegate_upgrader::document::{self, Images, Overrides, create_request};
use delegate_upgrader::schedule::Schedule;
use delegate_upgrader::schedule::zone::Zone;
use divan::{AllocProfiler, Bencher, black_box};
use serde_json::Value;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

/// Recorded on engine 20.10: a documented delegate, and a delegate with all kinds of mounts.
const RECORDED: [&str; 2] = ["documented", "all-kinds-of-mounts"];

fn main() {
    divan::main();
}

fn text(path: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/docker-20.10");
    fs::read(root.join(path)).expect(path)
}

fn value(path: &str) -> Value {
    serde_json::from_slice(&text(path)).expect(path)
}

fn container(of: &str, file: &str) -> Inspected {
    Inspected::new(value(&format!("{of}/{file}.json"))).expect("a container's document")
}

/// Reading the answer of an inspect.
#[divan::bench(args = RECORDED)]
fn read_a_document(bencher: Bencher<'_, '_>, of: &str) {
    let text = text(&format!("{of}/container.json"));
    bencher.bench(|| Inspected::new(serde_json::from_slice(black_box(&text)).expect("JSON")));
}

/// Making the create body of the successor.
#[divan::bench(args = RECORDED)]
fn make_the_successor(bencher: Bencher<'_, '_>, of: &str) {
    let old = container(of, "container");
    let (first, second) = (value("images/v1.json"), value("images/v2.json"));
    let images = Images {
        old: &first,
        new: &second,
    };
    let labels = [(label::RELEASE, "1".to_owned())];
    let overrides = Overrides {
        reference: "harness/delegate:26.02.1",
        by_id: None,
        labels: &labels,
    };
    let api = ApiVersion::new(1, 41);
    bencher.bench(|| create_request(black_box(&old), images, &overrides, api).expect("a body"));
}

/// Comparing the successor's configuration with the old one's.
#[divan::bench(args = RECORDED)]
fn compare_with_the_successor(bencher: Bencher<'_, '_>, of: &str) {
    let (old, new) = (container(of, "container"), container(of, "recreated"));
    let (first, second) = (value("images/v1.json"), value("images/v2.json"));
    let images = Images {
        old: &first,
        new: &second,
    };
    bencher.bench(|| document::differences(black_box(&old), black_box(&new), images));
}

/// The next run, in a zone with summer time.
#[divan::bench(args = ["0 * * * *", "30 2 29 2 *"])]
fn find_the_next_run(bencher: Bencher<'_, '_>, pattern: &str) {
    let zone = Zone::named("Europe/Berlin").expect("a zone");
    let schedule = Schedule::parse(pattern, zone).expect("a schedule");
    let now: DateTime<Utc> = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
    bencher.bench(|| schedule.next(black_box(now)));
}
