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
on_the_twin!(the_engine_stores_pauses_and_when_images_were_first_seen);
