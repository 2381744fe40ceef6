//! A container's log as text, from the engine's stream in either of its two forms.

use std::borrow::Cow;

/// The bytes of a frame's header: the number of the stream, three zeros, the length of what follows.
const HEADER: usize = 8;

/// The text of both streams, without the frames that they come in. A container with a terminal has one stream,
/// unframed.
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
