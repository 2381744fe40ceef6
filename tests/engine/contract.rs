//! The rules that the rollout rests on, checked against a real engine, so that the engine in memory cannot differ from it.

use kit::contract::{self, lab::RealLab};

use crate::image_records::has_containerd_store;

/// Rules about an image without a tag, which containerd's store keeps or forgets in its own way (`image_records.rs`).
const OF_DOCKERS_OWN_STORE: [&str; 2] = [
    "a_forced_removal_removes_the_image_of_a_stopped_container",
    "a_moved_tag_leaves_the_old_image_to_its_containers",
];

fn holds_here(rule: &str) -> bool {
    !has_containerd_store() || !OF_DOCKERS_OWN_STORE.contains(&rule)
}

macro_rules! on_a_real_engine {
    ($($rule:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $rule() {
                if holds_here(stringify!($rule)) {
                    RealLab::check(stringify!($rule), async |lab: &RealLab| contract::$rule(lab).await).await;
                }
            }
        )+
    };
}

kit::each_rule!(on_a_real_engine);
