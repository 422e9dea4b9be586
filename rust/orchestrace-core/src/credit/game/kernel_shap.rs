//! Shapley values as the solution of a weighted regression, from sampled coalitions.
//!
//! ```text
//! minimize Σ_S π(S) (v(S) - v(∅) - Σ_{i∈S} φ_i)²  under Σ φ = ∆v,   π(S) = (n-1) / (C(n,s) s (n-s))
//! A = E[z z'] has ½ on its diagonal and a beside it, a = Σ_{s=2}^{n-1} (s-1)/(n-s) / (n (n-1) Σ_{s=1}^{n-1} 1/(s (n-s)))
//! b = E[z (v(z) - v(∅))],   φ = A⁻¹ (b - 1 (1'A⁻¹b - ∆v) / (1'A⁻¹1)) = ∆v/n + (b - mean b) / (½ - a)
//! ```
//!
//! The matrix is the exact one, not that of the sample; so φ is linear in b, every draw adds up to ∆v, and errors come
//! from the draws. A draw is a coalition and its complement; its size has the weight 1/(s (n-s)). Unbiased.
//! O(n) beside two evaluations a draw.
//! References: S. Lundberg, S. Lee, arXiv 1705.07874; I. Covert, S. Lee, arXiv 2012.01536, eq. 14 to 17.

use super::{Chunk, Game, Setting, Solution, Tally, draws};
use crate::error::Result;

/// Label of the random streams.
const LABEL: &str = "shapley/kernel";

/// a, what the matrix has beside its diagonal, for two players or more.
#[must_use]
pub fn off_diagonal(n: usize) -> f64 {
    let n = n as f64;
    let sizes = || (1..n as u64).map(|s| s as f64);
    let above: f64 = sizes().map(|s| (s - 1.0) / (n - s)).sum();
    let all: f64 = sizes().map(|s| 1.0 / (s * (n - s))).sum();
    above / (n * (n - 1.0) * all)
}

/// The estimate from `samples` coalitions, in pairs.
pub fn sampled(game: &mut dyn Game, setting: &Setting<'_>, samples: u64, out: &mut Solution) -> Result<()> {
    let n = setting.players.len();
    if n < 2 {
        // all of it belongs to the one who plays
        out.exact(&setting.players, &[setting.full - setting.empty][..n]);
        return Ok(());
    }
    let sizes: Vec<f64> = (1..n)
        .scan(0.0, |sum, s| {
            *sum += 1.0 / (s as f64 * (n - s) as f64);
            Some(*sum)
        })
        .collect();
    let scale = 0.5 - off_diagonal(n);
    let draw = |game: &mut dyn Game, chunk: &mut Chunk<'_>, tally: &mut Tally| {
        pairs(game, setting, &sizes, scale, chunk, tally)
    };
    let tally = draws(game, setting, LABEL, samples.div_ceil(2), setting.players.n_rows(), &draw)?;
    out.sampled(&setting.players, &tally);
    Ok(())
}

fn pairs(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    sizes: &[f64],
    scale: f64,
    chunk: &mut Chunk<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let n = setting.players.len();
    let room = &mut *chunk.room;
    room.members.clear();
    room.members.resize(n, 0);
    room.marks.clear();
    room.marks.extend(0..n as u32);
    for lane in 0..chunk.count {
        let at = chunk.stream.unit_f64() * sizes[n - 2];
        let size = 1 + sizes.partition_point(|&sum| sum <= at).min(n - 2);
        for k in 0..size {
            let other = k + chunk.stream.below((n - k) as u64) as usize;
            room.marks.swap(k, other);
            room.members[room.marks[k] as usize] |= 1 << lane;
        }
    }
    let count = chunk.count;
    room.values.clear();
    room.values.resize(2 * count, 0.0);
    let (inside, outside) = room.values.split_at_mut(count);
    game.values(&room.members, inside)?;
    room.members.iter_mut().for_each(|word| *word = !*word);
    game.values(&room.members, outside)?;
    let even = (setting.full - setting.empty) / n as f64;
    for lane in 0..count {
        let (with, without) = (inside[lane] - setting.empty, outside[lane] - setting.empty);
        // the words are those of the complements now
        let half_of = |word: &u64| 0.5 * if word >> lane & 1 == 0 { with } else { without };
        let mean = room.members.iter().map(half_of).sum::<f64>() / n as f64;
        room.draw.clear();
        room.draw.resize(setting.players.n_rows(), 0.0);
        for (word, &row) in room.members.iter().zip(setting.players.row_of) {
            room.draw[row as usize] += even + (half_of(word) - mean) / scale;
        }
        tally.add(&room.draw);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table::shapley_of_table;
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn the_matrix_is_that_of_all_subsets() {
        assert!((off_diagonal(5) - 0.26).abs() < 1e-15);
        for n in 2..9_usize {
            let (mut both, mut one, mut all) = (0.0, 0.0, 0.0);
            for set in 1..(1_usize << n) - 1 {
                let s = set.count_ones() as usize;
                let binomial: f64 = (0..s).map(|k| (n - k) as f64 / (k + 1) as f64).product();
                let mass = (n - 1) as f64 / (binomial * (s * (n - s)) as f64);
                all += mass;
                one += mass * f64::from(set & 1 == 1);
                both += mass * f64::from(set & 3 == 3);
            }
            assert!((one / all - 0.5).abs() < 1e-12 && (both / all - off_diagonal(n)).abs() < 1e-12, "{n}");
        }
    }

    #[test]
    fn all_subsets_by_their_weight_give_the_shapley_value() {
        let mut stream = Stream::new(8, "kernel", &[]);
        let n = 6_usize;
        let table: Vec<f64> = (0..1 << n).map(|_| stream.unit_f64()).collect();
        let (mut b, mut all) = (vec![0.0; n], 0.0);
        for set in 1..table.len() - 1 {
            let s = set.count_ones() as usize;
            let binomial: f64 = (0..s).map(|k| (n - k) as f64 / (k + 1) as f64).product();
            let mass = (n - 1) as f64 / (binomial * (s * (n - s)) as f64);
            all += mass;
            (0..n).filter(|p| set >> p & 1 == 1).for_each(|p| b[p] += mass * (table[set] - table[0]));
        }
        for b in &mut b {
            *b /= all;
        }
        let (mean, even) = (b.iter().sum::<f64>() / n as f64, (table[table.len() - 1] - table[0]) / n as f64);
        for (b, phi) in b.iter().zip(shapley_of_table(&table)) {
            assert!((even + (b - mean) / (0.5 - off_diagonal(n)) - phi).abs() < 1e-12);
        }
    }
}
