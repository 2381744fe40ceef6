#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kit::checks::border::check(data));
