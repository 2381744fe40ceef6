//! Endless answers take no more memory than there is, and the error says that the answer is too long.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{Credentials, DockerEngine, Engine as _, EngineError, EngineHost};
use delegate_upgrader::health::http::HttpEndpoint;
use delegate_upgrader::health::{HealthEndpoint as _, HttpOutcome};

/// The memory for data that a container of 100 MB has left besides the program's own, in KiB.
const DATA: &str = "81920";

/// The cases: each has an answer, and its result in the process with little memory.
const CASES: [&str; 14] = [
    "changes",
    "changes without end",
    "list",
    "list of tiny rows",
    "inspect",
    "inspect of brackets",
    "log line",
    "exec",
    "error",
    "start",
    "pull",
    "pull of layers",
    "events",
    "health",
];

/// The answer to a request with this head: the start, the repeated part, the number of repetitions, and the end.
fn answer(case: &str, head: &str) -> (u16, &'static str, String, usize, &'static str) {
    const MIB: usize = 1 << 20;
    let filler = |text: &str| text.repeat(64 * 1024 / text.len());
    let document = r#"{"Id":"1","Name":"/dd","Created":"2026-11-21T10:00:00.7Z","State":{"Status":"running"},"Config":{"Labels":{"a":"#;
    let path = head.split(' ').nth(1).unwrap_or_default();
    if path == "/version" {
        return (
            200,
            r#"{"ApiVersion":"1.41","Version":"26.1.5","Os":"linux","Arch":"amd64"}"#,
            String::new(),
            0,
            "",
        );
    }
    if case.starts_with("changes") {
        if path.ends_with("/changes") {
            let row = |number| {
                format!(
                    r#",{{"Path":"/opt/harness/cache/{number:07}/a-file-of-a-tool-that-was-downloaded-{number:024}","Kind":1}}"#
                )
            };
            let rows: String = (0..1000).map(row).collect();
            let times = if case == "changes" { 500 } else { 1_500 };
            return (200, r#"[{"Path":"/config","Kind":1}"#, rows, times, "]");
        }
        return (200, document, r#""b""#.to_owned(), 1, "}}}");
    }
    match case {
        "list" => {
            let row = format!(
                r#",{{"Id":"{}","Names":["/dd"],"State":"running","Labels":{{"a":"{}"}}}}"#,
                "f".repeat(64),
                filler("a")
            );
            (200, r#"[{"Id":"1"}"#, row, 1600, "]")
        }
        "list of tiny rows" => (200, r#"[{"Id":"1"}"#, r#",{"Id":"1"}"#.repeat(1000), 100, "]"),
        "inspect" => (200, r#"{"Id":"1","a":""#, filler("a"), 800, r#""}"#),
        "inspect of brackets" => (200, r#"{"Id":"1","a":[[]"#, filler(",[]"), 800, "]}"),
        "error" | "start" => (500, r#"{"message":""#, filler("a"), 16 * 1024, r#""}"#),
        "pull of layers" if path.starts_with("/v1.41/images/create") => {
            let line = |number| {
                format!(
                    "{{\"id\":\"{number:064}\",\"status\":\"Downloading\",\"progressDetail\":{{\"current\":1}}}}\n"
                )
            };
            (200, "", (0..1000).map(line).collect(), 10, "")
        }
        _ if path.ends_with("/json") && !path.contains("exec") => (404, "{}", String::new(), 0, ""),
        "log line" | "exec" => (200, "", filler("a"), 1600, "\n"),
        "pull" => (200, r#"{"status":""#, filler("a"), 1024 * MIB / (64 * 1024), "\n"),
        _ => (200, "", filler("a"), 1024 * MIB / (64 * 1024), "\n"),
    }
}

fn serve(case: &'static str, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = vec![0; 8192];
    let count = stream.read(&mut head)?;
    let (status, begin, middle, times, end) = answer(case, &String::from_utf8_lossy(&head[..count]));
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{begin}"
    )?;
    for _ in 0..times {
        stream.write_all(middle.as_bytes())?;
    }
    stream.write_all(end.as_bytes())
}

#[test]
fn limits_memory_for_every_engine_and_container_response() {
    let mut failed = Vec::new();
    for case in CASES {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(case, stream));
            }
        });
        let output = Command::new("sh")
            .args(["-c", &format!(r#"ulimit -d {DATA}; exec timeout 60 "$0" --exact docker::bounds::with_little_memory --ignored"#)])
            .arg(std::env::current_exe().unwrap())
            .env("BOUNDS", format!("{case}={address}"))
            .output()
            .unwrap();
        if !output.status.success() {
            let text = |bytes: &[u8]| {
                String::from_utf8_lossy(bytes)
                    .chars()
                    .take(2000)
                    .collect::<String>()
            };
            failed.push(format!(
                "{case}: {}\n{}{}",
                output.status,
                text(&output.stdout),
                text(&output.stderr)
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test]
#[ignore = "it runs in a process of its own"]
async fn with_little_memory() {
    let variable = std::env::var("BOUNDS").unwrap();
    let (case, address) = variable.split_once('=').unwrap();
    let host = EngineHost::Tcp {
        address: address.to_owned(),
        tls: None,
    };
    let (engine, id) = (
        DockerEngine::connect(&host, Credentials::default()).unwrap(),
        ContainerId::new("1"),
    );
    let image = "r.example/x:1".parse().unwrap();
    let problem = match case {
        "changes" => engine
            .copied_files(&id)
            .await
            .map(|files| assert_eq!(files, Vec::<String>::new())),
        "changes without end" => engine.copied_files(&id).await.map(|_| ()),
        "list" | "list of tiny rows" => engine.containers().await.map(|rows| assert_eq!(rows.len(), 1601)),
        "inspect" | "inspect of brackets" | "error" => engine.inspect(&id).await.map(|_| ()),
        "log line" => engine
            .logs(&id, 50)
            .await
            .map(|text| assert!(text.len() < 100_000)),
        "exec" => engine
            .start_exec("1")
            .await
            .map(|text| assert!(text.len() < 200_000)),
        "start" => engine.start(&id).await,
        "pull" | "pull of layers" => engine.pull(&image, None, |_| ()).await,
        "events" => engine.watch(|_| ()).await,
        _ => {
            let endpoint = HttpEndpoint::new(None).unwrap();
            let outcome = endpoint.get(address.parse().unwrap(), "/api/health").await;
            assert_eq!(outcome, HttpOutcome::Answered(200));
            return;
        }
    };
    let said = problem
        .as_ref()
        .err()
        .map(EngineError::to_string)
        .unwrap_or_default();
    let expected = match case {
        "changes" | "list" | "log line" | "exec" | "events" => "",
        "error" | "start" => "aaaaaaaa",
        "pull of layers" => "ended without an image",
        _ => "too much to know",
    };
    assert!(
        said.contains(expected) && said.is_empty() == expected.is_empty(),
        "{said:.300}"
    );
    assert!(said.len() < 5_000, "{}", said.len());
}

/// The limit of a list is ten seconds in which nothing arrives, not ten seconds for all of it.
#[tokio::test]
async fn waits_for_a_slow_answer_while_data_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let count = stream.read(&mut head).unwrap();
            let start = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
            if head[..count].starts_with(b"GET /version") {
                let _ = write!(stream, r#"{start}{{"ApiVersion":"1.41"}}"#);
                continue;
            }
            let _ = write!(stream, "{start}");
            for piece in ["[", r#"{"Id":"1"},"#, r#"{"Id":"#, r#""2"}"#, "]"] {
                let _ = stream.write_all(piece.as_bytes());
                std::thread::sleep(std::time::Duration::from_millis(2_800));
            }
        }
    });
    let engine =
        DockerEngine::connect(&EngineHost::Tcp { address, tls: None }, Credentials::default()).unwrap();
    assert_eq!(engine.containers().await.map(|rows| rows.len()), Ok(2));
}
