//! A fixed reference instead of a Manager.

use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::{FixedImage, ImageSource as _};

#[tokio::test]
async fn fixed_source_answers_every_question() {
    let fixed: ImageReference = "harness/delegate:26.03.1".parse().unwrap();
    let source = FixedImage(fixed.clone());
    for current in ["harness/delegate:26.02.1", "corp/other:1"] {
        let answer = source.published(&current.parse().unwrap(), "any").await;
        assert_eq!(answer, Ok(fixed.clone()));
    }
}
