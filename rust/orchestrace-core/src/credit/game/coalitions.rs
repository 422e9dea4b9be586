//! All coalitions, sixty-four at a time.
//!
//! The lowest six items (players, or sets of them) are the bits of a word; the others go in Gray order, so that from one
//! block to the next a single item joins or leaves, and a game that remembers evaluates only what depends on this one.

use super::{COALITIONS, Game};
use crate::error::Result;
use crate::run::Run;
use crate::surrogate::cost::places;

/// Word of each of the lowest items: bit k is set where it is in the k-th coalition of a block.
const LOW: [u64; 6] = [
    0xAAAA_AAAA_AAAA_AAAA,
    0xCCCC_CCCC_CCCC_CCCC,
    0xF0F0_F0F0_F0F0_F0F0,
    0xFF00_FF00_FF00_FF00,
    0xFFFF_0000_FFFF_0000,
    0xFFFF_FFFF_0000_0000,
];

/// The players that can change a value, in the order in which going through all their coalitions is cheapest: those
/// with the longest reach first, which are bits of the word and never join or leave; then from the shortest on, because
/// of the others the first one joins or leaves in every second step, the next in every fourth.
pub fn in_cheap_order(game: &dyn Game) -> Vec<[u32; 1]> {
    let mut players: Vec<[u32; 1]> =
        (0..game.players()).filter(|&p| !game.is_null(p)).map(|p| [p as u32]).collect();
    if players.len() > LOW.len() {
        players.sort_by_cached_key(|&[player]| std::cmp::Reverse(game.reach(player as usize)));
        players[LOW.len()..].reverse();
    }
    players
}

/// Values of all unions of `items`, which are disjoint sets of players, nobody else being there. `visit` gets the number
/// of a block's first union, and values in the order of their numbers; bit j of a number is `items[j]`.
///
/// O(2^k) values of the game for k items.
pub fn all_coalitions<I: AsRef<[u32]>>(
    game: &mut dyn Game,
    run: &Run,
    items: &[I],
    visit: &mut dyn FnMut(usize, &[f64]),
) -> Result<()> {
    let low = items.len().min(LOW.len());
    let blocks = places(items.len())? >> low;
    let mut members = vec![0_u64; game.players()];
    for (item, &word) in items.iter().zip(&LOW) {
        for &player in item.as_ref() {
            members[player as usize] = word;
        }
    }
    let mut values = [0.0; COALITIONS];
    let values = &mut values[..1 << low];
    for block in 0..blocks as u64 {
        run.check()?;
        let gray = block ^ (block >> 1);
        if block > 0 {
            for &player in items[low + block.trailing_zeros() as usize].as_ref() {
                members[player as usize] = !members[player as usize];
            }
        }
        game.values(&members, values)?;
        visit((gray as usize) << low, values);
    }
    Ok(())
}
