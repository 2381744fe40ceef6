//! Fifty Deployments in one run: the number of requests to the API server, and the time that they take.

use std::fmt::Write as _;
use std::time::Instant;

use kit::lab::eventually;

use super::rights::DOCUMENTED;
use super::site::{A, PATIENCE, Site, deployment};

const COUNT: usize = 50;

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_steady_run_reads_each_deployment_once() {
    let mut site = Site::with("fifty", 0, DOCUMENTED);
    site.publish(A);
    let mut manifest = String::new();
    for number in 1..COUNT {
        let another = deployment(0).replace(
            "metadata: {name: delegate,",
            &format!("metadata: {{name: d-{number},"),
        );
        let _ = writeln!(manifest, "{another}---");
        let _ = write!(site.workload, ",d-{number}");
    }
    site.apply(&manifest);
    eventually("all of them are complete", PATIENCE, || {
        let reasons = [
            "get",
            "deployments",
            "--output",
            "jsonpath={.items[*].status.conditions[*].reason}",
        ];
        site.kubectl(&reasons).matches("NewReplicaSetAvailable").count() == COUNT
    });
    let begun = Instant::now();
    let run = site.run(&["once"]);
    let took = begun.elapsed();
    assert_eq!(run.code, Some(0), "{}", run.text);
    let calls = site.requests().len();
    println!(
        "{COUNT} Deployments, nothing to do: {calls} calls to the API server, {} ms in all",
        took.as_millis()
    );
    assert_eq!(calls, COUNT);
    assert_eq!(site.writes().len(), 0);
}
