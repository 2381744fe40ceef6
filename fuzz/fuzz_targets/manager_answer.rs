#![no_main]

#[path = "../../tests/fuzz_corpus/image_reference.rs"]
mod image_reference;
#[path = "../../tests/fuzz_corpus/manager_answer.rs"]
mod manager_answer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| manager_answer::check(data));
