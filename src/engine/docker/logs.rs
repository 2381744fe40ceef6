//! A container's log as text, from the engine's stream in either of its two forms.

use std::borrow::Cow;

/// The bytes of a frame's header: the number of the stream, three zeros, the length of what follows.
const HEADER: usize = 8;

/// The text of both streams, without the frames that they come in. A container with a terminal has one stream, unframed.
pub(super) fn text(body: &[u8]) -> String {
    let plain: Cow<'_, [u8]> = if is_framed(body) {
        Cow::Owned(unframed(body))
    } else {
        Cow::Borrowed(body)
    };
    String::from_utf8_lossy(&plain).into_owned()
}

/// Engines before API 1.42 do not say which form it is, but no text starts like a header.
fn is_framed(body: &[u8]) -> bool {
    matches!(body, [0..=2, 0, 0, 0, _, _, _, _, ..])
}

/// The whole lines of both streams, in the order in which they ended.
fn unframed(mut body: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.len());
    let mut begun = [Vec::new(), Vec::new()];
    while let Some((header, rest)) = body.split_at_checked(HEADER) {
        let length = header.iter().skip(4).fold(0_usize, |length, byte| {
            length.saturating_mul(256).saturating_add((*byte).into())
        });
        // The answer may have been cut off.
        let (frame, rest) = rest.split_at(length.min(rest.len()));
        let [stdout, stderr] = &mut begun;
        let line = if header.first() == Some(&2) {
            stderr
        } else {
            stdout
        };
        line.extend_from_slice(frame);
        if let Some(end) = line.iter().rposition(|byte| *byte == b'\n') {
            text.extend(line.drain(..=end));
        }
        body = rest;
    }
    for line in begun.iter().filter(|line| !line.is_empty()) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stream: u8, text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&[stream, 0, 0, 0], &length[..], text.as_bytes()].concat()
    }

    #[test]
    fn both_streams_come_out_in_their_order() {
        let body = [frame(1, "one\n"), frame(2, "two\n"), frame(1, "three\n")].concat();
        assert_eq!(text(&body), "one\ntwo\nthree\n");
    }

    #[test]
    fn a_line_in_pieces_is_not_torn_by_the_other_stream() {
        let body = [
            frame(1, "begun, "),
            frame(2, "oops\n"),
            frame(1, "done\n"),
            frame(2, "last"),
        ]
        .concat();
        assert_eq!(text(&body), "oops\nbegun, done\nlast\n");
    }

    #[test]
    fn a_terminal_s_stream_is_text_as_it_is() {
        assert_eq!(text(b"one\r\ntwo\r\n"), "one\r\ntwo\r\n");
        assert_eq!(text(b""), "");
        assert_eq!(text(b"\x01\x02"), "\u{1}\u{2}");
    }

    #[test]
    fn an_answer_that_was_cut_off_gives_what_it_has() {
        let mut body = [frame(1, "one\n"), frame(1, "two three\n")].concat();
        body.truncate(body.len() - 4);
        assert_eq!(text(&body), "one\ntwo th\n");
        body.truncate(15);
        assert_eq!(text(&body), "one\n");
    }

    #[test]
    fn what_is_not_text_is_no_failure() {
        let body = [1, 0, 0, 0, 0, 0, 0, 2, 0xff, 0xfe];
        assert_eq!(text(&body), "\u{fffd}\u{fffd}\n");
    }
}
