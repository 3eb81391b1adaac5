//! The sans-IO session: examples of its behaviour, and properties that hold for all of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod breaks;
mod examples;
mod greetings;
mod introductions;
mod lifetimes;
mod properties;
mod servers;
mod sharing;
mod transports;
mod world;
