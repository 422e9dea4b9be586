//! Drawing and walking of orders, shared by all samplers over orders.

use super::{Chunk, Game, Players, Setting, Solution, Tally, draws};
use crate::error::Result;
use crate::rng::Stream;

/// Places of orders that are drawn and walked together: 12 bytes each, 100 MB a worker, or the orders of one draw where
/// these are more. All draws of a chunk are together up to 131,072 players.
const PLACES: usize = 1 << 23;

/// Appends a random order of `n` players, each equally likely.
pub fn append_order(stream: &mut Stream, n: usize, orders: &mut Vec<u32>) {
    let from = orders.len();
    orders.extend(0..n as u32);
    stream.shuffle(&mut orders[from..]);
}

/// The Shapley value of any game from `samples` orders.
pub fn sampled(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    label: &str,
    samples: u64,
    out: &mut Solution,
) -> Result<()> {
    let players = &setting.players;
    let tally = draws(game, setting, label, samples, players.n_rows(), &|game, chunk, tally| {
        walk(game, players, chunk, tally, |stream, orders| append_order(stream, players.len(), orders))
    })?;
    out.sampled(players, &tally);
    Ok(())
}

/// Draws the chunk's orders by `draw`, which appends one order of all players, and tallies the gains of every row.
pub fn walk(
    game: &mut dyn Game,
    players: &Players<'_>,
    chunk: &mut Chunk<'_>,
    tally: &mut Tally,
    mut draw: impl FnMut(&mut Stream, &mut Vec<u32>),
) -> Result<()> {
    walk_together(game, players, chunk, tally, 1, |stream, orders| draw(stream, orders))
}

/// The same, where a draw is the mean over `each` orders, which `draw` appends one after the other.
pub fn walk_together(
    game: &mut dyn Game,
    players: &Players<'_>,
    chunk: &mut Chunk<'_>,
    tally: &mut Tally,
    each: usize,
    mut draw: impl FnMut(&mut Stream, &mut Vec<u32>),
) -> Result<()> {
    let length = players.len() * each;
    if length == 0 {
        return Ok(());
    }
    let room = &mut *chunk.room;
    let together = (PLACES / length).max(1);
    let mut left = chunk.count;
    while left > 0 {
        let some = left.min(together);
        left -= some;
        room.orders.clear();
        // Several at once: a game may walk them side by side.
        for _ in 0..some {
            chunk.run.check()?; // an extension of a deep forest is long in the drawing
            draw(&mut chunk.stream, &mut room.orders);
        }
        debug_assert_eq!(room.orders.len(), length * some);
        room.gains.clear();
        room.gains.resize(room.orders.len(), 0.0);
        game.walks(&room.orders, &mut room.gains)?;
        let drawn = room.orders.chunks_exact(length).zip(room.gains.chunks_exact(length));
        for (orders, gains) in drawn {
            room.draw.clear();
            room.draw.resize(players.n_rows(), 0.0);
            for (&player, gain) in orders.iter().zip(gains) {
                room.draw[players.row_of[player as usize] as usize] += gain;
            }
            room.draw.iter_mut().for_each(|sum| *sum /= each as f64);
            tally.add(&room.draw);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Room;
    use super::*;
    use crate::run::Run;

    /// Everybody adds its number, whoever is there.
    struct Numbers(usize);

    impl Game for Numbers {
        fn players(&self) -> usize {
            self.0
        }

        fn values(&mut self, _: &[u64], _: &mut [f64]) -> Result<()> {
            unreachable!("orders are walked")
        }

        fn walks(&mut self, orders: &[u32], out: &mut [f64]) -> Result<()> {
            out.iter_mut().zip(orders).for_each(|(out, &player)| *out = f64::from(player));
            Ok(())
        }
    }

    #[test]
    fn many_players_hold_few_orders_at_a_time() {
        let n = PLACES / 40;
        let row_of: Vec<u32> = (0..n as u32).collect();
        let players = Players { row_of: &row_of, n_units: n, ..Players::default() };
        let (run, mut room, mut tally) = (Run::new(Some(1)).unwrap(), Room::default(), Tally::new(n + 1));
        let stream = Stream::new(1, "orders", &[]);
        let mut chunk = Chunk { stream, first: 0, count: 64, run: &run, room: &mut room };
        let draw = |stream: &mut Stream, orders: &mut Vec<u32>| append_order(stream, n, orders);
        walk(&mut Numbers(n), &players, &mut chunk, &mut tally, draw).unwrap();
        assert_eq!(tally.count(), 64);
        assert!((0..n).all(|player| tally.mean(player) == player as f64));
        assert!(room.orders.len() <= PLACES && room.gains.len() <= PLACES);
    }
}
