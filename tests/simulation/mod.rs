//! A simulated kernel and network, for tests that run production code against it.
//!
//! One seed decides everything that happens: how long things take, how they are cut up, in which order they complete
//! and what fails. Nothing depends on the bytes that are sent, only on how many there are. One thread runs it all.
//!
//! - [`Sim`] is the handle: it makes drivers, listeners, servers and clients, and moves time.
//! - [`SimDriver`] is the `Driver` that the code under test gets. It panics when its user breaks a duty.
//! - [`Peer`] is the far end of a connection: a client of the proxy, or a connection the proxy made to a [`Server`].
//! - [`Settings`] says how large and how rough the world is.
//!
//! Two ways to drive it. With `enter_advances_time`, a driver's `enter` moves time until something completes, as if the
//! thread slept: for one driver and a test that acts between its calls. Without it, many users of drivers take turns
//! on one thread: an `enter` that has to wait fails with `WouldBlock`, which ends its user's turn at the very point
//! where a thread would be asleep. The test repeats the turn when [`Sim::is_runnable`] says that it would wake, and
//! moves time with [`Sim::advance_to`] when nobody is awake.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of the simulation")]

mod agenda;
mod buffers;
mod endpoint;
mod files;
mod kernel;
mod peer;
mod rng;
mod settings;
mod sim;
mod world;

pub(crate) use kernel::SimDriver;
pub(crate) use peer::{Peer, Read, Server, Witness};
pub(crate) use rng::Rng;
pub(crate) use settings::Settings;
pub(crate) use sim::{DriverId, Sim};
