//! The edge formats from outside: whatever arrives and however it is cut, a parser says the same and never panics.

mod proxy;
