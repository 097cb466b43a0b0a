//! Carries chance into decisions that may not draw it: jitter, spreads, who goes first.
//!
//! One [`Chance`] is drawn at the edge for each call of the door and handed down as an argument, so a decision can be
//! repeated exactly. A decision that needs several independent draws derives them with [`Chance::nth`].

/// One drawn number from which a decision derives all the randomness it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// Returns the chance that stands for `seed`; every 64-bit value is valid.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the `n`-th independent draw of this chance.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        Self(mix(self.0 ^ mix(n.wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }

    /// Returns a number in `[0, 1)`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn unit(self) -> f64 {
        (mix(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns 64 random bits, for identities that only have to differ.
    #[must_use]
    pub fn bits(self) -> u64 {
        mix(self.0)
    }
}

/// Scrambles the bits of a counter: the finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
const fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_lie_in_the_unit_interval_and_differ() {
        let chance = Chance::from_seed(7);
        let draws: Vec<f64> = (0..1000).map(|n| chance.nth(n).unit()).collect();
        assert!(draws.iter().all(|u| (0.0..1.0).contains(u)));
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "mean {mean}");
    }

    /// The first three numbers of SplitMix64 from this seed, as its reference implementation gives them.
    #[test]
    fn bits_are_those_of_splitmix64() {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let first = |n: u64| Chance::from_seed(1_234_567_u64.wrapping_add(STEP.wrapping_mul(n))).bits();
        let known = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([first(0), first(1), first(2)], known);
    }
}
