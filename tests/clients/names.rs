//! The addresses of names: the answers of servers and of the system's files, and the result.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use delegate_upgrader::config::Egress;
use delegate_upgrader::manager::{HttpManager, ManagerConfig, Resolver};
use kit::manager::{RawServer, ask, config, published, reference};
use kit::names::{AAAA, Says, free_port, server};
use tempfile::TempDir;

const NAME: &str = "manager.example";
const HERE: Says = Says::Has(&["127.0.0.1"]);

type Script = fn(&str, u8) -> Says;

/// A resolver with these lines in resolv.conf, after a `nameserver` line for each script, and with these in hosts.
fn resolver(scripts: &[Script], lines: &str, hosts: &str) -> (Resolver, TempDir) {
    let port = free_port();
    let mut resolv_conf = format!("# written by a test\n{lines}\n");
    for (host, script) in (1..).zip(scripts) {
        server(([127, 0, 0, host], port).into(), *script);
        writeln!(resolv_conf, "nameserver 127.0.0.{host}").unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| -> PathBuf {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let resolver = Resolver::with_files(file("resolv.conf", &resolv_conf), file("hosts", hosts), port);
    (resolver, directory)
}

async fn found(scripts: &[Script], lines: &str, hosts: &str, name: &str) -> Result<Vec<String>, String> {
    let (resolver, _files) = resolver(scripts, lines, hosts);
    let found = resolver.addresses(name).await?;
    Ok(found.iter().map(IpAddr::to_string).collect())
}

#[tokio::test]
#[rustfmt::skip]
async fn resolves_every_name_that_glibc_resolves() {
    let good: Script = |_, _| HERE;
    let refuses: Script = |_, _| Says::Code(5);
    let fails: Script = |_, _| Says::Code(2);
    let garbage: Script = |_, _| Says::Garbage;
    let lame: Script = |_, _| Says::Lame;
    let silent: Script = |_, _| Says::Silence;
    let large: Script = |_, _| Says::Large(&["127.0.0.1"]);
    let confused: Script = |_, _| Says::Confused(&["127.0.0.1"]);
    let cases: &[(&str, &[Script], &str, &str)] = &[
        ("one good server", &[good], "", NAME),
        ("the first server refuses", &[refuses, good], "", NAME),
        ("the first server fails", &[fails, good], "", NAME),
        ("the first server talks garbage", &[garbage, good], "", NAME),
        ("the first server asks nobody", &[lame, good], "", NAME),
        ("the first server is silent", &[silent, good], "", NAME),
        ("two servers are silent", &[silent, silent, good], "options timeout:1", NAME),
        ("the second server knows nothing", &[good, |_, _| Says::Code(3)], "", NAME),
        ("all are asked in turn", &[refuses, fails, good], "options rotate", NAME),
        ("an answer is too large for UDP", &[large], "", NAME),
        ("UDP is forbidden", &[good], "options use-vc", NAME),
        ("an answer belongs to another question", &[confused], "", NAME),
        ("a dot at the end", &[good], "search corp.example", "manager.example."),
        ("AAAA is SERVFAIL", &[|_, kind| if kind == AAAA { Says::Code(2) } else { HERE }], "options attempts:1", NAME),
        ("AAAA is NXDOMAIN", &[|_, kind| if kind == AAAA { Says::Code(3) } else { HERE }], "", NAME),
        ("AAAA is REFUSED", &[|_, kind| if kind == AAAA { Says::Code(5) } else { HERE }], "", NAME),
        ("AAAA is not answered", &[|_, kind| if kind == AAAA { Says::Silence } else { HERE }], "", NAME),
        (
            "a search domain is broken",
            &[|name, _| if name == NAME { HERE } else { Says::Code(2) }],
            "search broken.example\noptions ndots:5",
            NAME,
        ),
        (
            "the second search domain has it",
            &[|name, _| {
                if name == "manager.b.example" {
                    HERE
                } else {
                    Says::Code(3)
                }
            }],
            "search a.example b.example",
            "manager",
        ),
    ];
    for (case, scripts, lines, name) in cases {
        let begun = Instant::now();
        let found = found(scripts, lines, "", name).await;
        assert_eq!(found, Ok(vec!["127.0.0.1".to_owned()]), "{case}");
        // The clients give a connection ten seconds, and curl waits five for a silent server.
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{case}: {:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test]
#[rustfmt::skip]
async fn reports_what_each_server_answered() {
    let none: Script = |_, _| Says::Code(3);
    let nodata: Script = |_, _| Says::Has(&[]);
    let fails: Script = |_, _| Says::Code(2);
    let silent: Script = |_, _| Says::Silence;
    for (scripts, lines, expected) in [
        (&[none][..], "", "127.0.0.1 answers NXDOMAIN to manager.example"),
        (&[nodata], "", "127.0.0.1 knows no address of manager.example"),
        (&[fails, silent], "options timeout:1 attempts:1", "127.0.0.1 answers SERVFAIL to manager.example, 127.0.0.2 does not answer"),
        (
            &[fails, none],
            "search a.example\noptions ndots:2",
            "127.0.0.1 answers SERVFAIL to manager.example, 127.0.0.2 answers NXDOMAIN to manager.example, \
             127.0.0.1 answers SERVFAIL to manager.example.a.example, \
             127.0.0.2 answers NXDOMAIN to manager.example.a.example",
        ),
    ] {
        let said = found(scripts, lines, "", NAME).await.unwrap_err();
        assert_eq!(said, format!("no address of manager.example: {expected}"));
    }
    // Nothing listens: no port is open there.
    let (resolver, _files) = resolver(&[], "nameserver 127.0.0.1", "");
    let said = resolver.addresses(NAME).await.unwrap_err();
    assert!(said.contains("127.0.0.1: ") && said.contains("refused"), "{said}");
    let said = resolver.addresses("a..b").await.unwrap_err();
    assert!(said.contains("a..b is not a name"), "{said}");
}

/// The wait is the client's own time, which passes at once.
#[tokio::test(start_paused = true)]
async fn silent_servers_are_named_before_the_client_gives_up() {
    let silent: Script = |_, _| Says::Silence;
    let begun = tokio::time::Instant::now();
    let said = found(&[silent, silent, silent], "search a.example b.example", "", NAME)
        .await
        .unwrap_err();
    assert!(
        begun.elapsed() < Duration::from_millis(9500),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        said.contains("127.0.0.1 does not answer, 127.0.0.2 does not answer, 127.0.0.3"),
        "{said}"
    );
}

#[tokio::test]
async fn the_hosts_file_takes_precedence_over_servers() {
    let other: Script = |_, _| Says::Has(&["192.0.2.1"]);
    let hosts = "10.1.1.1 other.example # manager.example\n\
                 127.0.0.9\tMANAGER.example m\n::1 m manager.example\nbroken manager.example\n";
    let found = found(&[other], "", hosts, NAME).await;
    assert_eq!(found, Ok(vec!["127.0.0.9".to_owned(), "::1".to_owned()]));
}

#[tokio::test]
async fn resolves_the_manager_or_names_the_servers_in_the_error() {
    let refuses: Script = |_, _| Says::Code(5);
    let good: Script = |_, _| HERE;
    let server = RawServer::start(vec![published("a:1")]).await;
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    let client = |resolver| {
        HttpManager::new(ManagerConfig {
            egress: Egress {
                resolver,
                ..Egress::default()
            },
            ..config(&format!("http://{NAME}:{port}"))
        })
        .unwrap()
    };
    let (resolver_of_both, _files) = resolver(&[refuses, good], "", "");
    assert_eq!(ask(&client(resolver_of_both)).await, Ok(reference("a:1")));
    let (resolver_of_one, _files) = resolver(&[refuses], "", "");
    let error = ask(&client(resolver_of_one)).await.unwrap_err();
    let words = "the Manager is unreachable: no address of manager.example: 127.0.0.1 answers REFUSED to manager.example;";
    assert!(error.to_string().starts_with(words), "{error}");
}
