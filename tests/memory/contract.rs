//! The rules that the rollout rests on, checked against the engine in memory.

use kit::contract::{self, lab::TwinLab};

macro_rules! on_the_twin {
    ($($rule:ident),+ $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $rule() {
                contract::$rule(&TwinLab::default()).await;
            }
        )+
    };
}

kit::each_rule!(on_the_twin);
// On a real engine, a test with an engine of its own checks this rule.
on_the_twin!(an_engine_remembers_a_pause_and_when_an_image_was_first_seen);
