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
async fn keeps_order_of_both_streams() {
    let body = [frame(1, "one\n"), frame(2, "two\n"), frame(1, "three\n")].concat();
    assert_eq!(text(&body).await, "one\ntwo\nthree\n");
}

#[tokio::test]
async fn keeps_line_in_pieces_whole_between_streams() {
    let body = [
        frame(1, "begun, "),
        frame(2, "oops\n"),
        frame(1, "done\n"),
        frame(2, "last"),
    ]
    .concat();
    assert_eq!(text(&body).await, "oops\nbegun, done\nlast\n");
}

#[tokio::test]
async fn reads_terminal_stream_verbatim() {
    assert_eq!(text(b"one\r\ntwo\r\n").await, "one\r\ntwo\r\n");
    assert_eq!(text(b"").await, "");
    assert_eq!(text(b"\x01\x02").await, "\u{1}\u{2}");
}

#[tokio::test]
async fn reads_truncated_answer_as_far_as_it_goes() {
    let mut body = [frame(1, "one\n"), frame(1, "two three\n")].concat();
    body.truncate(body.len() - 4);
    assert_eq!(text(&body).await, "one\ntwo th\n");
    body.truncate(15);
    assert_eq!(text(&body).await, "one\n");
}

#[tokio::test]
async fn invalid_utf8_is_not_a_failure() {
    let body = [1, 0, 0, 0, 0, 0, 0, 2, 0xff, 0xfe];
    assert_eq!(text(&body).await, "\u{fffd}\u{fffd}\n");
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

/// The engine counts the pieces of a long line: it is asked for more than are wanted.
#[tokio::test]
async fn keeps_last_lines_only() {
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
