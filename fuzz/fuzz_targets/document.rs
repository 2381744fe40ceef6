#![no_main]

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target};

fuzz_target!(|data: &[u8]| kit::checks::document::check(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    delegate_upgrader_fuzz::mutate(data, size, max_size, seed)
});

fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    delegate_upgrader_fuzz::cross(one, other, out, seed)
});
