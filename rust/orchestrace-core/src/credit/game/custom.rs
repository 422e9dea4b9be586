//! Custom outcome functions in place of the surrogate: a game for every trace.

use super::{Cast, Game};
use crate::graph::{Owners, Partition};
use crate::schema::Dict;
use crate::store::Names;
use crate::store::view::TraceView;

/// Values of coalitions on each trace.
pub trait Outcomes: Sync + std::fmt::Debug {
    /// The game of a trace. `players` are the ids of the units that play, in their order.
    fn game<'a>(&'a self, trace_id: &str, players: Vec<String>) -> Box<dyn Game + 'a>;
}

/// A custom outcome function, and its names of players.
#[derive(Debug, Clone, Copy)]
pub struct CustomOutcomes<'a> {
    /// The outcomes.
    pub outcomes: &'a dyn Outcomes,
    /// Names of the store.
    pub names: &'a Names,
}

impl<'a> CustomOutcomes<'a> {
    /// The game of a trace with its players.
    pub(super) fn game(
        &self,
        view: &TraceView<'_>,
        cast: &Cast,
        partition: &Partition,
        owners: &Owners,
    ) -> Box<dyn Game + 'a> {
        let named = |player: usize| {
            let mut id = String::new();
            let agent = |code| self.names.dict(Dict::Agent).name(code);
            let role = |code| self.names.dict(Dict::Role).name(code);
            cast.name(player, partition, owners).write_id(view, agent, role, &mut id);
            id
        };
        let players = (0..cast.players().len()).map(named).collect();
        self.outcomes.game(view.trace_id, players)
    }
}
