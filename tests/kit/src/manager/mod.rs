//! The code that tests of the Manager client share: its settings, and a server that sends any bytes.

mod raw_server;

use std::time::Duration;

use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::{
    HttpManager, ImageSource as _, ManagerConfig, ManagerError, ManagerSettings, Timing,
};

pub use raw_server::{RawServer, Reply, answer, answer_text, published};

pub const ACCOUNT: &str = "acct-TEST_000000000000";
pub const TOKEN: &str = "000102030405060708090a0b0c0d0e0f";
pub const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Short enough for tests, long enough for a busy machine.
pub const QUICK: Timing = Timing {
    connect: Duration::from_secs(5),
    total: Duration::from_secs(5),
    first_pause: Duration::from_millis(10),
    min_attempt: Duration::from_millis(500),
};

/// For tests that wait until the time is over.
pub const HASTY: Timing = Timing {
    total: Duration::from_millis(800),
    min_attempt: Duration::from_millis(100),
    ..QUICK
};

/// The settings of a Manager with this URL, for the account of the tests.
pub fn settings(base_url: &str, key: [u8; 16]) -> ManagerSettings {
    ManagerSettings {
        account_id: ACCOUNT.to_owned(),
        base_url: base_url.to_owned(),
        token: key.into(),
    }
}

pub fn config(base_url: &str) -> ManagerConfig {
    ManagerConfig {
        reports_upgrader: true,
        timing: QUICK,
        ..ManagerConfig::new(settings(base_url, KEY), "upgrader-host")
    }
}

pub fn client(base_url: &str) -> HttpManager {
    HttpManager::new(config(base_url)).unwrap()
}

pub fn reference(text: &str) -> ImageReference {
    text.parse().unwrap()
}

pub async fn ask(client: &HttpManager) -> Result<ImageReference, ManagerError> {
    client
        .published(&reference("harness/delegate:26.02.88404"), "docker-delegate")
        .await
}
