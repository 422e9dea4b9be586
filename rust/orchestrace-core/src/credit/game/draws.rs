//! Parallel draws whose results do not depend on the number of threads.
//!
//! Draws come in chunks of [`DRAWS`]. A chunk has a random stream of its own, keyed by seed, method, trace and number
//! of the chunk, and a tally of its own; tallies are merged in the order of the chunks. So the result is the same bits
//! on any number of threads. Where the game forks, idle workers take chunks; else one worker takes all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::tally::Tally;
use super::{Game, Setting};
use crate::error::Result;
use crate::rng::Stream;
use crate::run::Run;

/// Draws of a chunk.
pub const DRAWS: u64 = 64;

/// Chunks whose tallies are held before they are merged, and the numbers of all of them together: a trace with a
/// hundred thousand players holds a few.
const WAVE: u64 = 64;
const HELD: usize = 1 << 20;

/// Buffers for draws; their initial content does not matter.
#[derive(Debug, Default)]
pub struct Room {
    /// Orders, or players.
    pub orders: Vec<u32>,
    /// Gains along orders.
    pub gains: Vec<f64>,
    /// Coalitions.
    pub members: Vec<u64>,
    /// Values of coalitions.
    pub values: Vec<f64>,
    /// One draw of a tally.
    pub draw: Vec<f64>,
    /// Anything else that is numbered.
    pub marks: Vec<u32>,
}

/// Some draws in a row.
#[derive(Debug)]
pub struct Chunk<'a> {
    /// Their random numbers.
    pub stream: Stream,
    /// Number of the first one.
    pub first: u64,
    /// How many, at most [`DRAWS`].
    pub count: usize,
    /// Threads and the cancel flag.
    pub run: &'a Run,
    /// Buffers.
    pub room: &'a mut Room,
}

/// What draws a chunk, and adds each draw to the tally.
pub type Draw<'a> = dyn Fn(&mut dyn Game, &mut Chunk<'_>, &mut Tally) -> Result<()> + Sync + 'a;

/// Tally of `n` draws of `width` numbers each; `label` is the name of the method and of the sampler.
pub fn draws(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    label: &str,
    n: u64,
    width: usize,
    draw: &Draw<'_>,
) -> Result<Tally> {
    let chunks = n.div_ceil(DRAWS);
    let draw_chunk = |game: &mut dyn Game, number: u64, room: &mut Room, tally: &mut Tally| {
        setting.run.check()?;
        let mut id = Vec::with_capacity(setting.id.len() + 8);
        id.extend_from_slice(setting.id);
        id.extend_from_slice(&number.to_le_bytes());
        let first = number * DRAWS;
        let count = DRAWS.min(n - first) as usize;
        tally.clear();
        let (stream, run) = (Stream::new(setting.seed, label, &id), setting.run);
        draw(game, &mut Chunk { stream, first, count, run, room }, tally)
    };
    let mut all = Tally::new(width);
    let workers = setting.run.pool().current_num_threads().min(usize::try_from(chunks).unwrap_or(usize::MAX));
    if workers < 2 || game.fork().is_none() {
        let (mut room, mut tally) = (Room::default(), Tally::new(width));
        for number in 0..chunks {
            draw_chunk(game, number, &mut room, &mut tally)?;
            all.merge(&tally);
        }
        return Ok(all);
    }
    let forks = (0..workers).map_while(|_| game.fork());
    let mut workers: Vec<_> = forks.map(|fork| (fork, Room::default())).collect();
    // merged in the order of the chunks, so that the length of a wave does not show
    let most = (HELD / width.max(1)).max(2 * workers.len()) as u64;
    let length = chunks.min(WAVE).min(most);
    let slots: Vec<Mutex<Tally>> = (0..length).map(|_| Mutex::new(Tally::new(width))).collect();
    for wave in (0..chunks).step_by(length as usize) {
        let next = AtomicU64::new(0);
        let in_wave = length.min(chunks - wave);
        setting.run.pool().install(|| {
            workers.par_iter_mut().with_max_len(1).try_for_each(|(fork, room)| -> Result<()> {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= in_wave {
                        return Ok(());
                    }
                    let mut tally = slots[at as usize].lock().unwrap_or_else(PoisonError::into_inner);
                    draw_chunk(fork.as_mut(), wave + at, room, &mut tally)?;
                }
            })
        })?;
        for slot in &slots[..in_wave as usize] {
            all.merge(&slot.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::Players;
    use super::*;
    use crate::error::Error;
    use crate::run::Run;

    /// Worth what its members sum to.
    struct Sum(bool);

    impl Game for Sum {
        fn players(&self) -> usize {
            70
        }

        fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
            for (k, out) in out.iter_mut().enumerate() {
                *out = (0..70).filter(|&p| members[p] >> k & 1 == 1).map(|p| p as f64).sum();
            }
            Ok(())
        }

        fn fork(&self) -> Option<Box<dyn Game + '_>> {
            self.0.then(|| Box::new(Sum(true)) as Box<dyn Game>)
        }
    }

    fn tally(threads: usize, forks: bool, n: u64, cancel: bool) -> Result<Tally> {
        let run = Run::new(Some(threads)).unwrap();
        if cancel {
            run.cancel();
        }
        let setting =
            Setting { players: Players::default(), empty: 0.0, full: 0.0, seed: 3, id: b"t", run: &run };
        draws(&mut Sum(forks), &setting, "test", n, 2, &|game, chunk, tally| {
            for _ in 0..chunk.count {
                let mut members = [0; 70];
                members.fill_with(|| chunk.stream.bits64());
                let mut value = [0.0];
                game.values(&members, &mut value)?;
                tally.add(&[value[0], chunk.first as f64]);
            }
            Ok(())
        })
    }

    #[test]
    fn threads_and_forks_do_not_show() {
        for n in [1, 63, 64, 65, 1000, 64 * 64 + 70] {
            let alone = tally(1, true, n, false).unwrap();
            assert_eq!(alone.count(), n);
            for threads in [2, 7] {
                assert_eq!(alone, tally(threads, true, n, false).unwrap());
                assert_eq!(alone, tally(threads, false, n, false).unwrap());
            }
        }
        assert!(matches!(tally(2, true, 1000, true), Err(Error::Cancelled)));
    }

    #[test]
    fn walks_are_marginals_whatever_the_length() {
        let mut orders: Vec<u32> = (0..70).collect();
        orders.extend((0..70).rev());
        let mut gains = vec![0.0; 140];
        Sum(false).walks(&orders, &mut gains).unwrap();
        assert!(orders.iter().zip(&gains).all(|(&p, &gain)| f64::from(p) == gain));
    }
}
