//! The random generators behind keys, nonces and signatures, and what each is for.
//!
//! libcrypto's generator belongs to the thread, too, but asks at each draw whether the process has been forked or the
//! machine cloned, before and after: four read locks of the whole process, on two cache lines that all cores write,
//! beside one lock of its own (`crypto/ube` and `crypto/fipsmodule/rand` of AWS-LC; `tests/tls_locks.rs` counts them).
//! Keys, signatures and the nonces of tickets are drawn from it all the same: there a value that comes twice, because
//! a machine was cloned, gives the key away, and libcrypto mixes the processor's randomness into each draw.
//!
//! What rustls asks a provider to draw for a server is seen by the client anyway: the random of its hello, the session
//! identifiers of TLS 1.2, a ticket's nonce and what its age is masked with. [`ThreadRandom`] draws those from a
//! generator of the thread, which takes no lock and shares nothing. The program never forks; a cloned machine may
//! repeat them, which harms nobody, since the keys are not repeated with them.
//!
//! A provider that must be FIPS's keeps the generator it comes with.

use std::cell::RefCell;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use rustls::crypto::{GetRandomFailed, SecureRandom};
use zeroize::Zeroizing;

/// A seed of ChaCha20: its key.
type Seed = [u8; 32];

/// How many draws one seed is good for. A full handshake makes two or three of at most 32 bytes each: a thread asks
/// libcrypto once in several hundred handshakes. ChaCha20 itself would be good for far more.
const DRAWS_MAX: u32 = 1024;

/// Draws values that peers may see, each thread from a generator of its own.
#[derive(Debug)]
pub(super) struct ThreadRandom;

impl SecureRandom for ThreadRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        GENERATOR.with_borrow_mut(|generator| generator.fill(bytes, seed_of_libcrypto))
    }
}

thread_local! {
    static GENERATOR: RefCell<Generator> = const { RefCell::new(Generator { stream: None, draws_left: 0 }) };
}

/// ChaCha20 (RFC 8439) with a seed that is exchanged after [`DRAWS_MAX`] draws, and wiped then.
struct Generator {
    stream: Option<ChaCha20Rng>,
    draws_left: u32,
}

impl Generator {
    /// Fills `bytes`, after a fresh seed from `seed` where one is due. Without one, nothing is drawn.
    fn fill(
        &mut self,
        bytes: &mut [u8],
        seed: impl FnOnce(&mut Seed) -> Result<(), GetRandomFailed>,
    ) -> Result<(), GetRandomFailed> {
        if self.draws_left == 0 {
            let mut fresh = Zeroizing::new(Seed::default());
            seed(&mut fresh)?;
            self.stream = Some(ChaCha20Rng::from_seed(*fresh));
            self.draws_left = DRAWS_MAX;
        }
        let stream = self.stream.as_mut().ok_or(GetRandomFailed)?;
        self.draws_left -= 1;
        stream.fill_bytes(bytes);
        Ok(())
    }
}

fn seed_of_libcrypto(seed: &mut Seed) -> Result<(), GetRandomFailed> {
    aws_lc_rs::rand::fill(seed).map_err(|_| GetRandomFailed)
}

/// Draws once from both generators of the calling thread and throws the bytes away.
///
/// The first draw of a thread seeds libcrypto's, which takes up to 50 ms (measured): a shard calls this before it
/// accepts, so that no client waits for it. A generator that fails here fails the first handshake again, with a reason.
pub fn warm_up() {
    let mut bytes = [0; 32];
    // What a failure means is the first handshake's to say.
    let _ = ThreadRandom.fill(&mut bytes);
}

/// A seed for what must differ from run to run and need not be secret: placement, jitter.
#[must_use]
pub fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    // A generator that fails leaves a fixed seed, which is good enough for these.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use rustls::crypto::{GetRandomFailed, SecureRandom};

    use super::{Generator, Seed, ThreadRandom};

    fn unseeded() -> Generator {
        Generator { stream: None, draws_left: 0 }
    }

    #[test]
    fn a_seed_is_stretched_by_chacha20() {
        let mut bytes = [0; 32];
        unseeded().fill(&mut bytes, |_| Ok(())).unwrap();
        // RFC 8439, appendix A.1, test vector 1: the key stream of a key of zeros.
        let expected = [
            0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86, 0xbd, 0x28, 0xbd, 0xd2,
            0x19, 0xb8, 0xa0, 0x8d, 0xed, 0x1a, 0xa8, 0x36, 0xef, 0xcc, 0x8b, 0x77, 0x0d, 0xc7,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_seed_is_exchanged_after_1024_draws() {
        let mut generator = unseeded();
        let mut seeds = 0;
        let mut draw = || {
            let mut bytes = [0; 32];
            let seed = |seed: &mut Seed| {
                seeds += 1;
                *seed = [seeds; 32];
                Ok(())
            };
            generator.fill(&mut bytes, seed).unwrap();
            bytes
        };
        let first = draw();
        for _ in 1..1024 {
            draw();
        }
        let after = draw();
        assert_eq!(seeds, 2);
        // Another stream, at its beginning.
        let mut expected = [0; 32];
        unseeded()
            .fill(&mut expected, |seed| {
                *seed = [2; 32];
                Ok(())
            })
            .unwrap();
        assert!(after == expected && after != first);
    }

    #[test]
    fn without_a_seed_nothing_is_drawn() {
        let mut generator = unseeded();
        let mut bytes = [0; 32];
        assert!(generator.fill(&mut bytes, |_| Err(GetRandomFailed)).is_err());
        for _ in 0..1024 {
            generator.fill(&mut [0; 4], |_| Ok(())).unwrap();
        }
        assert!(generator.fill(&mut bytes, |_| Err(GetRandomFailed)).is_err());
        assert_eq!(bytes, [0; 32]);
    }

    #[test]
    fn no_two_draws_are_alike_on_one_thread_or_on_two() {
        let draw = || {
            let mut bytes = [0; 32];
            ThreadRandom.fill(&mut bytes).unwrap();
            bytes
        };
        let (here, again) = (draw(), draw());
        let there = std::thread::spawn(draw).join().unwrap();
        assert!(here != again && here != there && again != there);
    }
}
