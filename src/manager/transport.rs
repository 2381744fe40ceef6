//! Why a Manager was not reached, from the errors of the layers below.

use std::error::Error;
use std::time::Duration;

use super::PublishedError;
use super::answer::printable;

/// What went wrong on the way to the Manager, or on the way back. `timeout` was the whole attempt's.
pub(super) fn transport(error: reqwest::Error, timeout: Duration) -> PublishedError {
    let error = error.without_url();
    if error.is_timeout() {
        // A connection that was not made says so; the whole attempt's bound says how long it was.
        return if error.is_connect() {
            PublishedError::Unreachable("no connection in time".to_owned())
        } else {
            PublishedError::Timeout(timeout)
        };
    }
    let text = printable(&reason(&error));
    if is_tls(&error) {
        PublishedError::Tls(text)
    } else {
        PublishedError::Unreachable(text)
    }
}

/// An error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        // `io::Error` hides the error it wraps: its source is that error's source.
        match error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

/// The causes of an error on one line, without repetitions and without the outermost, which only names the request.
pub(super) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes(error) {
        let text = cause.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
    }
    // The outermost says "error sending request", which is no news.
    if texts.len() > 1 {
        texts.remove(0);
    }
    texts.join(": ")
}

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(<dyn Error>::is::<rustls::Error>)
}
