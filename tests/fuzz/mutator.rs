//! Inputs for the fuzz target: some drawn, most made of earlier ones.

/// Earlier inputs kept to be mutated.
const KEPT_MAX: usize = 256;

/// The longest input.
const BYTES_MAX: usize = 512;

/// A source of inputs that depends on its seed alone.
pub(crate) struct Mutator {
    state: u64,
    kept: Vec<Vec<u8>>,
}

impl Mutator {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed, kept: Vec::new() }
    }

    fn draw(&mut self, below: usize) -> usize {
        // xorshift64 (Marsaglia, 2003).
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap() % below
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.draw(256)).unwrap()
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let input = if self.kept.is_empty() || self.draw(4) == 0 { self.fresh() } else { self.mutated() };
        if self.kept.len() < KEPT_MAX {
            self.kept.push(input.clone());
        } else {
            let place = self.draw(KEPT_MAX);
            self.kept[place].clone_from(&input);
        }
        input
    }

    fn fresh(&mut self) -> Vec<u8> {
        let len = 1 + self.draw(BYTES_MAX);
        (0..len).map(|_| self.byte()).collect()
    }

    fn mutated(&mut self) -> Vec<u8> {
        let source = self.draw(self.kept.len());
        let mut input = self.kept[source].clone();
        for _ in 0..=self.draw(4) {
            let at = self.draw(input.len());
            match self.draw(4) {
                0 => input[at] = self.byte(),
                1 => input[at] ^= 1 << self.draw(8),
                2 if input.len() > 1 => {
                    input.remove(at);
                }
                _ => {
                    let other = self.draw(self.kept.len());
                    let tail = &self.kept[other];
                    input.truncate(at + 1);
                    input.extend_from_slice(&tail[at.min(tail.len())..]);
                    input.truncate(BYTES_MAX);
                }
            }
        }
        input
    }
}
