//! Changes an input that is JSON as JSON, not as bytes: a fuzzer of bytes hardly ever gets past the parser.

mod edit;
mod nodes;
mod random;
mod words;

use libfuzzer_sys::fuzzer_mutate;
use serde_json::Value;

use random::Random;

/// One of this many changes is the fuzzer's own, to the bytes.
const OWN_IN: usize = 16;

/// Changes the document in `data[..size]`, and tells its new size.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random::new(seed);
    if let Ok(mut document) = serde_json::from_slice::<Value>(&data[..size])
        && !random.one_in(OWN_IN)
    {
        for _ in 0..=random.below(4) {
            edit::edit(&mut document, &mut random);
        }
        if let Some(size) = write(&document, data, max_size) {
            return size;
        }
    }
    fuzzer_mutate(data, size, max_size)
}

/// Puts parts of two documents together, and tells the size of the whole.
pub fn cross(one: &[u8], other: &[u8], out: &mut [u8], seed: u32) -> usize {
    let mut random = Random::new(seed);
    let parsed = (serde_json::from_slice(one), serde_json::from_slice(other));
    if let (Ok(mut one), Ok(other)) = parsed {
        edit::graft(&mut one, &other, &mut random);
        let max_size = out.len();
        if let Some(size) = write(&one, out, max_size) {
            return size;
        }
    }
    let size = one.len().min(out.len());
    out[..size].copy_from_slice(&one[..size]);
    size
}

fn write(document: &Value, out: &mut [u8], max_size: usize) -> Option<usize> {
    let text = document.to_string();
    let room = out.get_mut(..text.len()).filter(|room| room.len() <= max_size)?;
    room.copy_from_slice(text.as_bytes());
    Some(text.len())
}
