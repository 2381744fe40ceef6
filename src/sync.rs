//! State that tasks and threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even after a panic of its holder: each holder leaves its value whole at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
