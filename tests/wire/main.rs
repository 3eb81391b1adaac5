//! The edge formats from outside: whatever arrives and however it is cut, a parser says the same and never panics.

#![expect(clippy::unwrap_used, reason = "in a test an unexpected error is a failure")]

mod proxy;
