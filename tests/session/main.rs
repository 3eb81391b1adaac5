//! The sans-IO session: examples of its behaviour, and properties that hold for all of it.

mod examples;
mod properties;
mod world;
