//! A container's log as text, from the engine's stream in either of its two forms.

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::Engine as _;

use super::scripted::{ScriptedEngine, answer};

async fn text(body: &[u8]) -> String {
    let body = body.to_vec();
    let engine = ScriptedEngine::start(move |_| answer(200, body.clone())).await;
    engine.docker.logs(&ContainerId::new("d1"), 10).await.unwrap()
}

fn frame(stream: u8, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&[stream, 0, 0, 0], &length[..], text.as_bytes()].concat()
}

#[tokio::test]
#[rustfmt::skip]
async fn a_log_is_decoded_for_any_stream_format() {
    let whole = [frame(1, "one\n"), frame(1, "two three\n")].concat();
    let both = [frame(1, "one\n"), frame(2, "two\n"), frame(1, "three\n")].concat();
    let pieces = ["begun, ", "oops\n", "done\n", "last"];
    let pieces: Vec<u8> = (0..)
        .zip(pieces)
        .flat_map(|(at, text)| frame(1 + at % 2, text))
        .collect();
    for (name, body, expected) in [
        ("both streams in their order", both, "one\ntwo\nthree\n"),
        ("a line in pieces, whole between streams", pieces, "oops\nbegun, done\nlast\n"),
        ("a terminal's", b"one\r\ntwo\r\n".to_vec(), "one\r\ntwo\r\n"),
        ("an empty one", Vec::new(), ""),
        ("a terminal's that looks like a frame", b"\x01\x02".to_vec(), "\u{1}\u{2}"),
        ("cut off in a line", whole[..whole.len() - 4].to_vec(), "one\ntwo th\n"),
        ("cut off in a frame's head", whole[..15].to_vec(), "one\n"),
        ("with text after a frame", [frame(1, "one\n"), b"no frame\n".to_vec()].concat(), "one\nno frame\n"),
        ("no UTF-8", vec![1, 0, 0, 0, 0, 0, 0, 2, 0xff, 0xfe], "\u{fffd}\u{fffd}\n"),
    ] {
        assert_eq!(text(&body).await, expected, "{name}");
    }
}

/// An engine sends a long line in frames of 16 KiB.
fn long_line(length: usize) -> Vec<u8> {
    let text = "x".repeat(length);
    let mut pieces: Vec<Vec<u8>> = text
        .as_bytes()
        .chunks(16 * 1024)
        .map(|piece| frame(1, std::str::from_utf8(piece).unwrap()))
        .collect();
    pieces.push(frame(1, "\n"));
    pieces.concat()
}

#[tokio::test]
async fn a_huge_line_hides_none_of_the_others() {
    let body = [
        frame(1, "before\n"),
        long_line(3 * 1024 * 1024),
        frame(2, "oops\n"),
        frame(1, "after\n"),
    ]
    .concat();
    let log = text(&body).await;
    let lines: Vec<&str> = log.lines().collect();
    let [before, huge, oops, after] = lines[..] else {
        panic!("{} lines", lines.len());
    };
    assert_eq!((before, oops, after), ("before", "oops", "after"));
    assert!(huge.ends_with("xx…") && huge.len() < 100_000, "{}", huge.len());
}

#[tokio::test]
async fn a_huge_line_of_a_terminal_hides_none_of_the_others() {
    let huge = "x".repeat(3 * 1024 * 1024);
    let log = text(format!("before\r\n{huge}\r\nafter\r\n").as_bytes()).await;
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2]), (3, "before", "after"));
    assert!(lines[1].ends_with("xx…"));
}

/// The engine counts the pieces of a long line, so the client asks for more of them than it needs.
#[tokio::test]
async fn keeps_only_the_last_lines() {
    let body: Vec<u8> = (0..300).flat_map(|n| frame(1, &format!("{n}\n"))).collect();
    let engine = ScriptedEngine::start(move |_| answer(200, body.clone())).await;
    let log = engine.docker.logs(&ContainerId::new("d1"), 2).await.unwrap();
    assert_eq!(log, "298\n299\n");
    let asked = engine
        .calls()
        .into_iter()
        .find(|call| call.line.contains("/logs"));
    assert!(asked.unwrap().line.ends_with("tail=256"));
}
