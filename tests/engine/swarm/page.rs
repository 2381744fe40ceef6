//! The commands of docs/usage/swarm.md, unchanged except for names, values and images.

use std::process::Command;

use kit::commands::{Block, blocks};
use kit::lab::servers::{ACCOUNT, TOKEN, publish};
use kit::lab::{Lab, V1, V2, docker, eventually, expect, image, logs, project};

use super::{PATIENCE, Service};
use crate::readme_command::manager;

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn the_commands_of_the_page_do_what_it_says() {
    Service::prepare();
    let lab = Lab::new("swarm-page");
    let upgrader_image = format!("{}-upgrader:dev", lab.name);
    expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&upgrader_image));
    let (_, manager) = manager(&lab);
    let page = std::fs::read_to_string(project().join("docs/usage/swarm.md")).expect("the page");
    let commands: Vec<String> = blocks(&page).iter().flat_map(Block::commands).collect();
    let name = format!("{}-service", lab.name);
    let upgrader = format!("{}-upgrader", lab.name);
    let values = [
        ("docker-delegate", name.as_str()),
        ("harness/delegate:26.02.88404", &image(V1)),
        ("--name delegate-upgrader", &format!("--name {upgrader}")),
        ("exec delegate-upgrader", &format!("exec {upgrader}")),
        ("delegate-upgrader:latest", &upgrader_image),
        ("ACCOUNT_ID=…", &format!("ACCOUNT_ID={ACCOUNT}")),
        ("UPGRADER_TOKEN=…", &format!("UPGRADER_TOKEN={TOKEN}")),
        ("https://app.harness.io", &manager),
    ];
    let mut used = [false; 8];
    let service = Service {
        lab,
        name: name.clone(),
    };
    let mut printed = String::new();
    for command in commands {
        let mut command = command;
        for ((shown, value), used) in values.iter().zip(&mut used) {
            *used |= command.contains(shown);
            command = command.replace(shown, value);
        }
        if command.contains(" exec ") {
            publish(&manager, &image(V2));
            eventually("the upgrader is up", PATIENCE, || {
                logs(&upgrader).contains("starts")
            });
        }
        printed.push_str(&expect(Command::new("sh").args(["-c", &command])));
    }
    assert_eq!(used, [true; 8], "all of them are on the page");
    assert!(printed.contains("have Swarm replace"), "{printed}");
    // The page's last command pins the service to a different version.
    assert_eq!(service.label("pin").as_deref(), Some("26.02"));
    let plan = docker(&["exec", &upgrader, "/delegate-upgrader", "plan"]);
    assert!(plan.contains(&name), "{plan}");
    docker(&["rm", "--force", &upgrader]);
    let _ = Command::new("docker").args(["rmi", &upgrader_image]).output();
}
