#![no_main]

#[path = "../../tests/fuzz_corpus/image_reference.rs"]
mod image_reference;

libfuzzer_sys::fuzz_target!(|data: &[u8]| image_reference::check(data));
