//! Helpers that the HTTP clients share: connections to remote servers, TLS, certificates, pauses between retries,
//! and short texts of errors and error pages.

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod dns;
pub(crate) mod lines;
pub(crate) mod receiver;
pub(crate) mod retry;
pub(crate) mod tls;
pub(crate) mod trust;

use std::error::Error;
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use crate::text::one_line;

/// Iterates over an error and its causes, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        // `io::Error` hides the error that it wraps: `source` returns the source of the wrapped error.
        match error.downcast_ref().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

/// Returns the innermost cause, which says what happened. The outer errors only add context, and may quote a URL.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    words(causes(error).last().unwrap_or(error))
}

/// Joins the causes of a request's error with colons. Leaves out repetitions and causes that only name a layer of the client.
pub(crate) fn without_request(error: &(dyn Error + 'static)) -> String {
    // The outermost text is "error sending request".
    let mut texts: Vec<String> = causes(error).skip(1).map(words).collect();
    texts.retain(|text| !LAYERS.iter().any(|layer| text.starts_with(layer)));
    texts.dedup();
    if texts.is_empty() {
        return words(error);
    }
    texts.join(": ")
}

/// How the texts of the errors begin that say only which layer of the HTTP client passed a cause on.
const LAYERS: [&str; 4] = [
    "client error (",
    "tcp connect error",
    "dns error",
    "error resolving DNS",
];

/// The text of an error, without the number that the system has for it.
fn words(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let end = text.find(" (os error ").unwrap_or(text.len());
    text.get(..end).unwrap_or_default().to_owned()
}

/// Returns a random duration between half of the pause and all of it, so that many hosts do not ask at the same time.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let mut byte = [u8::MAX];
    // Without random numbers, use the full pause.
    let _ = SystemRandom::new().fill(&mut byte);
    let [byte] = byte;
    pause.mul_f64(0.5 + f64::from(byte) / f64::from(u8::MAX) / 2.0)
}

/// Returns the scheme, host and port of a redirect's target. The rest of its URL may contain secrets.
pub(crate) fn redirected_to(from: &reqwest::Url, location: &str) -> String {
    from.join(location).map_or_else(
        |_| "an invalid address".to_owned(),
        |to| one_line(&to.origin().ascii_serialization(), client::MAX_SHOWN),
    )
}

/// Returns the text of an HTML error page, such as a proxy sends, on one line. Returns any other text unchanged.
pub(crate) fn without_markup(text: &str) -> String {
    if !text.trim_start().starts_with('<') {
        return text.to_owned();
    }
    // A truncated tag is followed by no text.
    let parts = text.split('<').skip(1);
    let words = parts.filter_map(|part| Some(part.split_once('>')?.1));
    let words = words.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jittered_pause_varies_between_half_and_full_length() {
        let pause = Duration::from_secs(8);
        let pauses: Vec<_> = (0..200).map(|_| jittered(pause)).collect();
        assert!(pauses.iter().all(|p| (pause / 2..=pause).contains(p)));
        assert!(pauses.iter().any(|p| *p != pauses[0]));
    }
}
