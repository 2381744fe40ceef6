//! The rules that the rollout rests on, checked against a real engine, so that the engine in memory cannot differ from it.

use kit::contract::{self, lab::RealLab};

macro_rules! on_a_real_engine {
    ($($rule:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $rule() {
                RealLab::check(stringify!($rule), async |lab: &RealLab| contract::$rule(lab).await).await;
            }
        )+
    };
}

kit::each_rule!(on_a_real_engine);
