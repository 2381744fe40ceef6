//! Whether the engine is there at all. Without one, no point says anything about the upgrader, and each would wait until
//! its own time is over: the matrix ends at once, and says why.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use kit::lab::engine::Engine;

/// The time that an engine may take to answer at the beginning.
const AT_FIRST: Duration = kit::lab::PATIENCE;
/// The time that it may be silent later: longer than it takes to stop, and to start at the third attempt.
const LATER: Duration = Duration::from_secs(300);
/// The time that one request waits for its answer.
const ANSWER: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);

/// Waits for the engine's first answer.
pub(crate) async fn first_answer(engine: &Engine) -> Result<(), String> {
    let begin = Instant::now();
    while let Err(error) = engine.ping(ANSWER).await {
        if begin.elapsed() > AT_FIRST {
            let socket = engine.socket.display();
            return Err(format!("the engine at {socket} does not answer: {error}"));
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Completes when the engine has been silent for longer than any outage that the matrix makes, and says so.
pub(crate) async fn lost(engine: &Engine) -> String {
    let mut heard = Instant::now();
    loop {
        match engine.ping(ANSWER).await {
            Ok(()) => heard = Instant::now(),
            Err(error) if heard.elapsed() > LATER => {
                let (socket, silent) = (engine.socket.display(), heard.elapsed().as_secs());
                return format!(
                    "the engine at {socket} has not answered for {silent} s, and the rest was not tried: {error}"
                );
            }
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
}
