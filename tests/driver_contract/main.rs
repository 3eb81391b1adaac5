//! What every driver does, written once and run on a real ring and on the simulated kernel.
//!
//! `rig` says what a test needs of a machine; `uring_rig` and `sim_rig` are the two machines. The properties are in
//! `receive`, `send`, `accept`, `connect` and `wake`; `streams` runs whole conversations, on the simulated kernel with
//! everything that can go wrong going wrong. `only_uring` and `only_sim` hold what one of them alone promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod accept;
mod connect;
mod only_sim;
mod only_uring;
mod receive;
mod rig;
mod send;
mod sim_rig;
#[path = "../simulation/mod.rs"]
mod simulation;
mod streams;
mod uring_rig;
mod wake;

/// Runs each property on both machines.
macro_rules! on_both {
    ($($property:ident),+ $(,)?) => {
        mod on_uring {
            $(#[test]
            fn $property() {
                super::$property(&mut crate::rig::Rig::new(crate::uring_rig::UringMachine::new()));
            })+
        }
        mod on_the_simulated_kernel {
            $(#[test]
            fn $property() {
                for seed in 0..20 {
                    super::$property(&mut crate::rig::Rig::new(crate::sim_rig::SimMachine::new(seed)));
                }
            })+
        }
    };
}
pub(crate) use on_both;
