//! Random numbers that a seed determines.

use std::ops::Range;
use std::time::Duration;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Another generator, whose draws do not change the draws from this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    pub fn below(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Whether a draw succeeds that does so once in this many times; never for 0.
    pub fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.next().is_multiple_of(times)
    }

    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let index = usize::try_from(self.below(0..choices.len() as u64)).unwrap();
        choices[index].clone()
    }

    pub fn seconds(&mut self, range: Range<u64>) -> Duration {
        Duration::from_secs(self.below(range))
    }

    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.below(range))
    }
}
