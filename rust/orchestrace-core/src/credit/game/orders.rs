//! Orders that are drawn and walked: what all samplers over orders share.

use super::{Chunk, Game, Players, Setting, Solution, Tally, draws};
use crate::error::Result;
use crate::rng::Stream;

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
    room.orders.clear();
    // All at once: a game may walk several orders side by side.
    for _ in 0..chunk.count {
        chunk.run.check()?; // an extension of a deep forest is long in the drawing
        draw(&mut chunk.stream, &mut room.orders);
    }
    debug_assert_eq!(room.orders.len(), length * chunk.count);
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
    Ok(())
}
