//! The random generator behind keys, nonces and signatures.

/// Draws once on the calling thread and throws the bytes away.
///
/// The first draw of a thread seeds its generator, which takes up to 50 ms (measured): a shard calls this before it
/// accepts, so that no client waits for it. A generator that fails here fails the first handshake again, with a reason.
pub fn warm_up() {
    let mut bytes = [0; 32];
    // What a failure means is the first handshake's to say.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
}

/// A seed for what must differ from run to run and need not be secret: placement, jitter.
#[must_use]
pub fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    // A generator that fails leaves a fixed seed, which is good enough for these.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
