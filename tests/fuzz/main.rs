//! The fuzz targets. The session's: bytes become events, and the session's promises must hold after each. The framers':
//! bytes are a stream, which is cut the same way in whatever pieces it comes. The PROXY header's: bytes are read as they
//! are.
//!
//! A target takes any bytes, as a coverage-guided fuzzer's entry point would. Without one, inputs are drawn and
//! mutated here: a second by default, `FUZZ_SECONDS` of them in the full test run. A failure prints its input, and
//! `FUZZ_INPUT=<hex>` replays it when the test that failed is named.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod frames;
mod header;
mod mutator;
mod target;
#[path = "../session/world.rs"]
#[expect(dead_code, reason = "the session's tests use the rest of it")]
mod world;

use std::panic::{self, AssertUnwindSafe};

use mutator::Mutator;

/// Inputs run in between two looks at the clock.
const BATCH: usize = 16;

#[test]
fn any_bytes_keep_the_sessions_promises() {
    fuzz(target::session);
}

#[test]
fn any_bytes_are_cut_the_same_way_in_any_pieces() {
    fuzz(frames::frames);
}

#[test]
fn any_bytes_are_a_header_or_none_within_the_bound() {
    fuzz(header::header);
}

/// Runs `target` on the input that was asked for, or on as many as there is time for.
fn fuzz(target: fn(&[u8])) {
    if let Ok(hex) = std::env::var("FUZZ_INPUT") {
        let digits: Vec<char> = hex.chars().collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        return target(&digits.chunks(2).map(byte).collect::<Vec<_>>());
    }
    let seconds: u64 = std::env::var("FUZZ_SECONDS").map_or(1, |seconds| seconds.parse().unwrap());
    let deadline = ringwall::io::sys::now() + std::time::Duration::from_secs(seconds);
    let mut mutator = Mutator::new(0x5eed);
    let mut inputs = 0_u64;
    while ringwall::io::sys::now() < deadline {
        for _ in 0..BATCH {
            let input = mutator.next_input();
            inputs += 1;
            if let Err(reason) = panic::catch_unwind(AssertUnwindSafe(|| target(&input))) {
                let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
                eprintln!("input {inputs} failed; replay it with FUZZ_INPUT={hex}");
                panic::resume_unwind(reason);
            }
        }
    }
    println!("{inputs} inputs in {seconds} s");
    assert!(inputs > 0);
}
