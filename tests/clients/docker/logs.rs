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
async fn both_streams_come_out_in_their_order() {
    let body = [frame(1, "one\n"), frame(2, "two\n"), frame(1, "three\n")].concat();
    assert_eq!(text(&body).await, "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_line_in_pieces_is_not_torn_by_the_other_stream() {
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
async fn a_terminal_s_stream_is_text_as_it_is() {
    assert_eq!(text(b"one\r\ntwo\r\n").await, "one\r\ntwo\r\n");
    assert_eq!(text(b"").await, "");
    assert_eq!(text(b"\x01\x02").await, "\u{1}\u{2}");
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_read_as_far_as_it_goes() {
    let mut body = [frame(1, "one\n"), frame(1, "two three\n")].concat();
    body.truncate(body.len() - 4);
    assert_eq!(text(&body).await, "one\ntwo th\n");
    body.truncate(15);
    assert_eq!(text(&body).await, "one\n");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_no_failure() {
    let body = [1, 0, 0, 0, 0, 0, 0, 2, 0xff, 0xfe];
    assert_eq!(text(&body).await, "\u{fffd}\u{fffd}\n");
}
