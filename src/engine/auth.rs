//! Registry credentials for pulls.
