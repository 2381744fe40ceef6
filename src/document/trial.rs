//! The document of a trial: the candidate's, without the parts that only one container can have, and with an idle command.

use serde_json::{Value, json};

use super::SingleInstance;
use super::single_instance::single_instance_reasons;
use crate::container::{Inspected, restart_policy_document};

/// The command of a trial. An image that lacks it is refused with this name in the message, after everything else is set up.
pub const TRIAL_COMMAND: &str = "/bin/true";

/// Returns a container whose start shows whether this candidate can start while the container in service runs.
pub fn of_trial(candidate: &Inspected) -> Inspected {
    let mut trial = candidate.clone();
    trial.replace("/Config/Entrypoint", json!([TRIAL_COMMAND]));
    trial.replace("/Config/Cmd", Value::Null);
    trial.replace("/Config/Healthcheck", json!({ "Test": ["NONE"] }));
    trial.replace("/Config/MacAddress", Value::from(""));
    trial.replace("/HostConfig/RestartPolicy", restart_policy_document("no"));
    trial.replace_in_each("/HostConfig/PortBindings", "HostPort", &Value::from(""));
    let binds = trial.list("/HostConfig/Binds").iter().filter_map(Value::as_str);
    let binds: Vec<String> = binds.map(without_private_label).collect();
    trial.replace("/HostConfig/Binds", Value::from(binds));
    // In a network with its own addresses, such as macvlan, the engine might assign an address that another machine has.
    let mut reasons = single_instance_reasons(candidate).into_iter();
    if reasons.any(|reason| matches!(reason, SingleInstance::FixedIp { .. })) {
        trial.replace("/HostConfig/NetworkMode", Value::from("none"));
        trial.replace("/NetworkSettings/Networks", json!({}));
    }
    // No client may find the trial by the delegate's name.
    trial.replace_in_each("/NetworkSettings/Networks", "Aliases", &Value::Null);
    trial
}

/// Returns a bind without `Z`, which would make the engine take the files away from the running container.
fn without_private_label(bind: &str) -> String {
    let Some((paths, options)) = bind.rsplit_once(':') else {
        return bind.to_owned();
    };
    let others: Vec<&str> = options.split(',').filter(|option| *option != "Z").collect();
    if others.is_empty() {
        paths.to_owned()
    } else {
        format!("{paths}:{}", others.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_shares_no_exclusive_resources_and_does_nothing() {
        let document = |address: Value| {
            let document = json!({
                "Id": "0123",
                "Config": { "Cmd": ["./start.sh"], "MacAddress": "02:42:ac:11:00:02" },
                "HostConfig": {
                    "NetworkMode": "lan",
                    "PortBindings": { "3460/tcp": [{ "HostIp": "127.0.0.1", "HostPort": "3460" }] },
                    "RestartPolicy": { "Name": "always", "MaximumRetryCount": 0 },
                    "Binds": ["/a:/a:Z", "/b:/b:ro,Z", "/c:/Z", "/d:/d:z"],
                },
                "NetworkSettings": { "Networks": { "lan": { "IPAMConfig": address, "Aliases": ["dd"] } } },
            });
            of_trial(&Inspected::new(document).expect("a document"))
        };
        let trial = document(Value::Null);
        assert!(single_instance_reasons(&trial).is_empty());
        assert_eq!(trial.restart_policy_text(), "no");
        assert_eq!(trial.list("/Config/Entrypoint"), [TRIAL_COMMAND]);
        assert!(trial.list("/Config/Cmd").is_empty());
        let bindings = trial.document().pointer("/HostConfig/PortBindings/3460~1tcp");
        assert_eq!(
            bindings,
            Some(&json!([{ "HostIp": "127.0.0.1", "HostPort": "" }]))
        );
        let binds = ["/a:/a", "/b:/b:ro", "/c:/Z", "/d:/d:z"];
        assert_eq!(trial.list("/HostConfig/Binds"), binds);
        assert!(trial.list("/NetworkSettings/Networks/lan/Aliases").is_empty());
        assert_eq!(trial.network_mode(), "lan");
        let fixed = document(json!({ "IPv4Address": "192.168.1.9" }));
        assert!(single_instance_reasons(&fixed).is_empty());
        assert_eq!(fixed.network_mode(), "none");
    }
}
