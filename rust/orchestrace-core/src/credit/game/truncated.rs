//! Shapley values from orders truncated once the remaining gain is small.
//!
//! Along a random order everybody gains what they add, until |v(N) - v(those before)| is below the tolerance: whoever
//! comes later gets 0. Biased: values of late gains are lost, and the values sum to less than ∆v by up to the tolerance,
//! which the residual of the rows says. The error is that of the draws and does not know of the bias. It saves
//! evaluations, so it is for games that are dear; 64 orders are walked side by side, place by place.
//! Reference: A. Ghorbani, J. Zou, Data Shapley, arXiv 1904.02868, algorithm 1.

use super::orders::append_order;
use super::{Chunk, Game, Setting, Solution, Tally, draws};
use crate::error::Result;

/// Label of the random streams.
const LABEL: &str = "shapley/truncated";

/// The estimate from `samples` orders.
pub fn sampled(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    samples: u64,
    tolerance: f64,
    out: &mut Solution,
) -> Result<()> {
    if setting.players.is_empty() {
        return Ok(());
    }
    let draw = |game: &mut dyn Game, chunk: &mut Chunk<'_>, tally: &mut Tally| {
        walk(game, setting, tolerance, chunk, tally)
    };
    let tally = draws(game, setting, LABEL, samples, setting.players.n_rows(), &draw)?;
    out.sampled(&setting.players, &tally);
    Ok(())
}

fn walk(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    tolerance: f64,
    chunk: &mut Chunk<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let n = setting.players.len();
    let room = &mut *chunk.room;
    room.orders.clear();
    for _ in 0..chunk.count {
        append_order(&mut chunk.stream, n, &mut room.orders);
    }
    room.gains.clear();
    room.gains.resize(room.orders.len(), 0.0);
    room.members.clear();
    room.members.resize(n, 0);
    // Orders that still go on; lane k of the coalitions is that of the k-th of them.
    let mut open: Vec<(usize, f64)> = (0..chunk.count).map(|order| (order, setting.empty)).collect();
    for place in 0..n {
        let before = open.len();
        open.retain(|&(_, value)| (setting.full - value).abs() >= tolerance);
        if open.is_empty() {
            break;
        }
        if open.len() < before {
            room.members.fill(0);
            for (lane, &(order, _)) in open.iter().enumerate() {
                let joined = &room.orders[order * n..order * n + place];
                for &player in joined {
                    room.members[player as usize] |= 1 << lane;
                }
            }
        }
        for (lane, &(order, _)) in open.iter().enumerate() {
            room.members[room.orders[order * n + place] as usize] |= 1 << lane;
        }
        room.values.clear();
        room.values.resize(open.len(), 0.0);
        game.values(&room.members, &mut room.values)?;
        for ((order, value), &now) in open.iter_mut().zip(&room.values) {
            room.gains[*order * n + place] = now - *value;
            *value = now;
        }
    }
    for (order, gains) in room.orders.chunks_exact(n).zip(room.gains.chunks_exact(n)) {
        room.draw.clear();
        room.draw.resize(setting.players.n_rows(), 0.0);
        for (&player, gain) in order.iter().zip(gains) {
            room.draw[setting.players.row_of[player as usize] as usize] += gain;
        }
        tally.add(&room.draw);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Players;
    use super::super::table::TableGame;
    use super::*;
    use crate::run::Run;

    /// Worth how many there are; counts its evaluations.
    struct Count(TableGame<'static>, usize);

    impl Game for Count {
        fn players(&self) -> usize {
            self.0.players()
        }

        fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
            self.1 += out.len();
            self.0.values(members, out)
        }
    }

    #[test]
    fn late_gains_are_left_out_and_not_evaluated() {
        static TABLE: std::sync::LazyLock<Vec<f64>> =
            std::sync::LazyLock::new(|| (0..256_u32).map(|set| f64::from(set.count_ones())).collect());
        let run = Run::new(Some(1)).unwrap();
        let row_of: Vec<u32> = (0..8).collect();
        let players = Players { row_of: &row_of, n_units: 8, ..Players::default() };
        let setting = Setting { players, empty: 0.0, full: 8.0, seed: 0, id: b"", run: &run };
        // all gains are 1; the walk ends where less than the tolerance is missing
        for (tolerance, walked) in [(0.0, 8), (0.5, 8), (1.5, 7), (3.0, 6), (100.0, 0)] {
            let mut game = Count(TableGame::new(&TABLE).unwrap(), 0);
            let mut out = Solution::default();
            out.clear(players.n_rows());
            sampled(&mut game, &setting, 100, tolerance, &mut out).unwrap();
            assert_eq!(game.1, 100 * walked, "{tolerance}");
            let sum: f64 = out.value.iter().sum();
            assert!((sum - walked as f64).abs() < 1e-12, "{tolerance}: {sum}");
        }
    }
}
