//! Matching of calls to the tool uses and agents that they requested.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};

use super::forest::Forest;
use super::owners::{Generations, Owners};
use super::{Declared, NONE, Span, Spans, Text, ToolKind, Work};

/// How far back a call of the same name is looked for, in responses: what was asked longer ago was never done.
const BACK: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Matching {
    /// Of each tool or agent span, the response that asked for it.
    pub response: Vec<u32>,
    /// The span that each declared call became.
    pub span_of: Vec<u32>,
    /// Of each tool span, the first agent that works within it.
    pub agent_in: Vec<u32>,
    /// Agents that calls hand over to.
    pub hands_to: Vec<u32>,
    /// The same for tool spans that no declared call asked for.
    pub tool_hands_to: Vec<u32>,
    /// Tool spans that are a handover, whoever says so.
    pub hands_over: Vec<bool>,
    /// Spans that no declared call asked for but a response did.
    pub undeclared: Vec<(u32, u32)>,
}

/// Responses by where they are, in order of their beginning.
struct Responses {
    rows: Vec<(u32, Begin, u32)>,
}

/// When something began, and its place in the walk, which orders equal times.
type Begin = (i64, u32);

impl Responses {
    fn new(mut rows: Vec<(u32, Begin, u32)>) -> Self {
        rows.sort_unstable();
        Self { rows }
    }

    /// Those of a place that began before something, the last one first; then those that began after it, which are
    /// asked only for names: on another host it may be any time.
    fn around(&self, place: u32, begin: Begin) -> impl Iterator<Item = u32> {
        let at = self.rows.partition_point(|row| (row.0, row.1) <= (place, begin));
        let here = move |row: &&(u32, Begin, u32)| row.0 == place;
        let before = self.rows[..at].iter().rev().take_while(here).take(BACK);
        before.chain(self.rows[at..].iter().take_while(here).take(BACK)).map(|row| row.2)
    }

    fn last_before(&self, place: u32, begin: Begin) -> Option<u32> {
        let at = self.rows.partition_point(|row| (row.0, row.1) <= (place, begin));
        self.rows[..at].last().filter(|row| row.0 == place).map(|row| row.2)
    }
}

fn start(span: &Span) -> i64 {
    span.start.or(span.end).unwrap_or(i64::MAX)
}

/// A name as it stands in the name of a function.
fn function_style(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

impl Matching {
    pub(super) fn of(all: &Spans, forest: &Forest, generations: &Generations, owners: &mut Owners) -> Self {
        let n = all.spans.len();
        let mut matching = Self {
            response: vec![NONE; n],
            span_of: vec![NONE; all.calls.len()],
            agent_in: vec![NONE; n],
            hands_to: vec![NONE; all.calls.len()],
            tool_hands_to: vec![NONE; n],
            hands_over: vec![false; n],
            ..Self::default()
        };
        let leaves: Vec<u32> =
            forest.order.iter().copied().filter(|i| generations.leaf[*i as usize] == *i).collect();
        matching.hand_over(all, forest, &leaves, owners);
        matching.agents_in_tools(all, forest, owners);
        matching.ask(all, forest, generations, &leaves, owners);
        for (tool, agent) in matching.agent_in.iter().enumerate().filter(|(_, agent)| **agent != NONE) {
            // A tool without an agent above belongs to who asked for it, and so does who works within.
            let (owner, within) = (owners.of[tool], owners.of[*agent as usize]);
            if owner != NONE
                && owners.players[within as usize].parent.is_none()
                && !owners.is_above(within, owner)
            {
                owners.players[within as usize].parent = Some(owner);
            }
        }
        for (call, span) in matching.span_of.iter().enumerate().filter(|(_, span)| **span != NONE) {
            matching.hands_over[*span as usize] = matching.hands_to[call] != NONE;
        }
        for (i, to) in matching.tool_hands_to.iter().enumerate().filter(|(_, to)| **to != NONE) {
            matching.hands_over[i] |= *to != NONE;
        }
        matching
    }

    /// Finds those who take over by the names that calls say. They stand beside who hands over, not below.
    fn hand_over(&mut self, all: &Spans, forest: &Forest, leaves: &[u32], owners: &mut Owners) {
        let mut by_name: HashMap<&str, Vec<u32>> = HashMap::new();
        for (p, player) in owners.players.iter().enumerate() {
            by_name.entry(all.read(player.who.name)).or_default().push(p as u32);
        }
        // Tools are functions: `transfer_to_refund_agent` hands over to the `Refund agent`.
        let mut by_function: HashMap<String, Vec<u32>> = HashMap::new();
        for (p, player) in owners.players.iter().enumerate() {
            by_function.entry(function_style(all.read(player.who.name))).or_default().push(p as u32);
        }
        let mut handed = HashSet::new();
        let mut find = |owners: &mut Owners, from: u32, name: Text| {
            if name.is_none() || from == NONE {
                return NONE;
            }
            let calls_of_id =
                by_name.get(all.read(name)).or_else(|| by_function.get(&function_style(all.read(name))));
            let candidates = calls_of_id.map_or(&[][..], Vec::as_slice);
            let fresh = |p: &&u32| !owners.players[**p as usize].took_over && **p != from;
            let Some(&to) = candidates.iter().find(fresh).or_else(|| candidates.iter().find(|p| **p != from))
            else {
                return NONE;
            };
            handed.insert(from);
            if !owners.is_above(to, from) && !handed.contains(&to) && !owners.players[to as usize].took_over {
                owners.players[to as usize].parent = owners.players[from as usize].parent;
                owners.players[to as usize].took_over = true;
            }
            to
        };
        for &leaf in leaves {
            for call in all.declared(leaf) {
                self.hands_to[call] = find(owners, owners.of[leaf as usize], all.calls[call].hands_to);
            }
        }
        let named_calls: HashSet<&str> =
            all.calls.iter().filter(|c| !c.id.is_none()).map(|c| all.read(c.id)).collect();
        for &i in &forest.order {
            if let Work::Tool(tool) = all.spans[i as usize].work
                && !named_calls.contains(all.read(tool.call))
            {
                self.tool_hands_to[i as usize] = find(owners, owners.of[i as usize], tool.hands_to);
            }
        }
    }

    fn agents_in_tools(&mut self, all: &Spans, forest: &Forest, owners: &mut Owners) {
        for &i in &forest.order {
            let tool = forest.places[i as usize].tool;
            if matches!(all.spans[i as usize].work, Work::Agent(_))
                && tool != NONE
                && !owners.merged[i as usize]
                && self.agent_in[tool as usize] == NONE
                && !owners.players[owners.of[i as usize] as usize].took_over
            {
                self.agent_in[tool as usize] = i;
                // An agent that is called like its tool, or by its class alone, is of the kind that the call asked for.
                let player = &mut owners.players[owners.of[i as usize] as usize];
                if let Work::Tool(used) = all.spans[tool as usize].work
                    && !used.asks_for.is_none()
                    && (player.who.inferred
                        || player.who.name.is_none()
                        || all.read(player.who.name).eq_ignore_ascii_case(all.read(used.tool)))
                {
                    player.who.name = used.asks_for;
                }
            }
        }
    }

    fn ask(
        &mut self,
        all: &Spans,
        forest: &Forest,
        generations: &Generations,
        leaves: &[u32],
        owners: &mut Owners,
    ) {
        let group = |i: u32, owners: &Owners| match forest.places[i as usize].agent {
            NONE => NONE,
            agent => owners.of[agent as usize],
        };
        // What a generation is part of, whatever records it once more.
        let scope = |i: u32| {
            let around = forest.places[i as usize].generation;
            let top = if around == NONE { i } else { generations.top[around as usize] };
            forest.places[top as usize].above
        };
        let begin = |i: u32| (start(&all.spans[i as usize]), forest.tour[i as usize].0);
        // Nobody asks for what already goes on around it: another use had the same id.
        let outside = |leaf: u32, i: u32| {
            let ((from, to), (at, _)) = (forest.tour[i as usize], forest.tour[leaf as usize]);
            at < from || at > to
        };
        let rows = |place: &dyn Fn(u32) -> u32| {
            Responses::new(leaves.iter().map(|l| (place(*l), begin(*l), *l)).collect())
        };
        let in_scope = rows(&scope);
        let in_group = rows(&|l| group(l, owners));

        let mut by_id: HashMap<&str, Vec<(u32, u32)>> = HashMap::new();
        // By response, name, and whether the call has an id.
        let mut by_name: HashMap<(u32, &str, bool), VecDeque<u32>> = HashMap::new();
        for &leaf in leaves {
            for call in all.declared(leaf) {
                let Declared { id, tool, .. } = all.calls[call];
                if !id.is_none() {
                    by_id.entry(all.read(id)).or_default().push((leaf, call as u32));
                }
                by_name.entry((leaf, all.read(tool), !id.is_none())).or_default().push_back(call as u32);
            }
        }

        let mut asked_spans: Vec<u32> =
            forest.order.iter().copied().filter(|i| self.is_asked(all, forest, owners, *i)).collect();
        asked_spans.sort_by_key(|i| begin(*i));
        for i in asked_spans {
            let span = &all.spans[i as usize];
            let (id, name, kind) = match span.work {
                Work::Tool(tool) => (tool.call, tool.tool, tool.kind),
                Work::Agent(agent) => (Text::default(), agent.who.name, ToolKind::Asked),
                _ => continue,
            };
            let span_of = &self.span_of;
            let free = |call: &u32| span_of[*call as usize] == NONE;
            let mut leaf_and_call = by_id.get(all.read(id)).filter(|_| !id.is_none()).and_then(|calls| {
                let is_of_group = |leaf: u32| group(leaf, owners) == group(i, owners);
                let open = |(leaf, call): &&(u32, u32)| free(call) && outside(*leaf, i);
                let mut open = calls.iter().filter(open).take(BACK);
                open.clone().find(|(leaf, _)| is_of_group(*leaf)).or_else(|| open.next()).copied()
            });
            let taker = self.tool_hands_to[i as usize];
            if leaf_and_call.is_none() && taker != NONE {
                // A record of a hand-over is called as it likes; it is of the call that hands over to the same agent.
                let same = |leaf: u32| {
                    let mut calls = all.declared(leaf).filter(|call| self.hands_to[*call] == taker);
                    calls.find(|call| free(&(*call as u32))).map(|call| (leaf, call as u32))
                };
                let mut near = in_scope.around(scope(i), begin(i)).filter(|leaf| outside(*leaf, i));
                let mut near_in_group =
                    in_group.around(group(i, owners), begin(i)).filter(|leaf| outside(*leaf, i));
                leaf_and_call = near.find_map(same).or_else(|| near_in_group.find_map(same));
            }
            if leaf_and_call.is_none() && !name.is_none() {
                // What has an id on both sides would have been found by it.
                let sides = if id.is_none() { &[true, false][..] } else { &[false] };
                let mut named = |leaf: u32| {
                    sides.iter().find_map(|with_id| {
                        let calls = by_name.get_mut(&(leaf, all.read(name), *with_id))?;
                        while calls.front().is_some_and(|call| !free(call)) {
                            calls.pop_front();
                        }
                        calls.front().map(|call| (leaf, *call))
                    })
                };
                let mut near = in_scope.around(scope(i), begin(i)).filter(|leaf| outside(*leaf, i));
                let mut near_in_group =
                    in_group.around(group(i, owners), begin(i)).filter(|leaf| outside(*leaf, i));
                leaf_and_call = near.find_map(&mut named).or_else(|| near_in_group.find_map(&mut named));
            }
            if let Some((leaf, call)) = leaf_and_call {
                self.span_of[call as usize] = i;
                self.response[i as usize] = leaf;
                Self::assign(i, owners.of[leaf as usize], owners);
                continue;
            }
            // Code that a model wrote calls tools without saying so in its answer.
            let around = forest.places[i as usize].generation;
            let last = if around != NONE && kind == ToolKind::Asked {
                Some(generations.leaf[around as usize])
            } else {
                let last = in_scope.last_before(scope(i), begin(i));
                last.filter(|leaf| kind == ToolKind::Asked && outside(*leaf, i))
            };
            if let Some(leaf) = last {
                self.response[i as usize] = leaf;
                self.undeclared.push((leaf, i));
                Self::assign(i, owners.of[leaf as usize], owners);
            } else if owners.of[i as usize] == NONE {
                let place = &forest.places[i as usize];
                let owner = owners.by_place(all, place.chain, span.service);
                owners.of[i as usize] = owner;
            }
        }
    }

    /// A tool without an agent above belongs to who asked for it.
    fn assign(i: u32, owner: u32, owners: &mut Owners) {
        if owners.of[i as usize] == NONE {
            owners.of[i as usize] = owner;
        }
    }

    /// Whether somebody asks for the span: tools, and agents that are no tool's own.
    fn is_asked(&self, all: &Spans, forest: &Forest, owners: &Owners, i: u32) -> bool {
        let place = &forest.places[i as usize];
        match all.spans[i as usize].work {
            Work::Tool(_) => !place.gone,
            Work::Agent(_) => {
                let player = &owners.players[owners.of[i as usize] as usize];
                let in_tool = place.tool != NONE && self.agent_in[place.tool as usize] == i;
                !owners.merged[i as usize] && place.agent != NONE && !in_tool && !player.took_over
            }
            _ => false,
        }
    }
}
