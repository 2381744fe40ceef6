//! The static program resolves the Manager's name wherever curl does.

use std::fmt::Write as _;
use std::net::SocketAddr;

use kit::lab::servers::{asking, manager};
use kit::lab::{Lab, V1, V2, image, static_binary};
use kit::names::{AAAA, Says, server};

const HERE: Says = Says::Has(&["127.0.0.1"]);
const NXDOMAIN: Says = Says::Code(3);

type Script = fn(&str, u8) -> Says;

#[test]
fn the_static_binary_finds_the_manager_despite_bad_name_servers() {
    let lab = Lab::new("names");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let program = static_binary("delegate-upgrader");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("resolv.conf");
    let wrapper = format!(
        r#"mount --bind {} /etc/resolv.conf && shift && exec {} "$@""#,
        file.display(),
        program.display()
    );
    let url = format!("http://manager.example:{}", manager.port);
    let upgrader = asking(&lab, &url).run_by(&["unshare", "--mount", "sh", "-c", &wrapper, "sh"]);
    let scenes: [(&str, &[Script]); 7] = [
        ("", &[|_, _| Says::Code(5), |_, _| HERE]),
        ("", &[|_, _| Says::Silence, |_, _| HERE]),
        ("", &[|_, _| HERE, |_, _| NXDOMAIN]),
        ("", &[|_, kind| if kind == AAAA { Says::Code(2) } else { HERE }]),
        ("", &[|_, kind| if kind == AAAA { NXDOMAIN } else { HERE }]),
        ("", &[|_, kind| if kind == AAAA { Says::Code(5) } else { HERE }]),
        (
            "search broken.example\noptions ndots:5\n",
            &[|name, _| {
                if name == "manager.example" {
                    HERE
                } else {
                    Says::Code(2)
                }
            }],
        ),
    ];
    for (scene, (lines, scripts)) in (1..).zip(scenes) {
        let mut resolv_conf = lines.to_owned();
        for (host, script) in (1..).zip(scripts) {
            let address = SocketAddr::from(([127, 53, scene, host], 53));
            server(address, *script);
            writeln!(resolv_conf, "nameserver {}", address.ip()).expect("a String takes it");
        }
        std::fs::write(&file, &resolv_conf).expect("a file");
        let run = upgrader.run(&["plan"]);
        assert_eq!(run.code, Some(0), "{resolv_conf}{}", run.text);
        run.says(&image(V2));
    }
}
