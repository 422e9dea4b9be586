//! The order of activities, and which activity ends another.

use hashbrown::{HashMap, HashSet};

use super::super::{NONE, Who, Work};
use super::{Act, Describing, Row, began, ended};

impl Describing<'_> {
    /// Everything that somebody did, and when; nothing before what it follows from.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let at_work = self.at_work();
        let works = |who: Who| {
            let (id, text) = if who.id.is_none() { (false, who.name) } else { (true, who.id) };
            at_work.contains(&(id, self.all.read(text)))
        };
        // Where a time is missing it is that of what was before.
        let mut last = i64::MIN;
        let key_of = |i: u32, end: bool, last: &mut i64| {
            let span = self.span(i);
            let time = if end { ended(&span) } else { began(&span) };
            let tour = self.forest.tour[i as usize];
            *last = time.unwrap_or(*last);
            (*last, if end { tour.1 } else { tour.0 }, 1)
        };
        for &i in &self.forest.order {
            let place = &self.forest.places[i as usize];
            let player = self.owners.of[i as usize];
            let mut push =
                |act, key, player| rows.push(Row { key, player, span: i, act, is_repeated: false });
            let asked_at = match self.matching.response[i as usize] {
                NONE => None,
                leaf => {
                    let (time, tour, _) = key_of(leaf, true, &mut last);
                    Some((time, tour, 1))
                }
            };
            let declared = self.declared_spans[i as usize];
            let own_key = key_of(i, false, &mut last);
            let begin = match asked_at {
                Some(asked_at) if declared => asked_at,
                Some(asked_at) => own_key.max(asked_at),
                None => own_key,
            };
            let end = key_of(i, true, &mut last).max((begin.0, begin.1, 2));
            match self.span(i).work {
                Work::Generation(_) if self.generations.leaf[i as usize] == i => {
                    push(Act::Responds, (end.0, end.1, 0), player);
                }
                Work::Tool(_) if !place.gone && player != NONE => {
                    if !declared {
                        push(Act::Asks, begin, player);
                    }
                    match self.matching.agent_in[i as usize] {
                        // What comes back of a handover is no more than that it was made.
                        NONE if self.matching.hands_over[i as usize] => {}
                        NONE => push(Act::Results, end, player),
                        agent => {
                            let child = self.owners.players[self.owners.of[agent as usize] as usize];
                            if child.last_visit == Some(agent) && self.span(agent).end.is_some() {
                                rows.push(Row {
                                    key: end,
                                    player,
                                    span: agent,
                                    act: Act::Receives,
                                    is_repeated: false,
                                });
                            }
                        }
                    }
                }
                Work::Agent(_) if !self.owners.merged[i as usize] => {
                    let in_tool = place.tool != NONE && self.matching.agent_in[place.tool as usize] == i;
                    if let Some(parent) = self.spawned(i).filter(|_| !in_tool) {
                        if !declared {
                            push(Act::Asks, begin, parent);
                        }
                        if self.span(i).end.is_some()
                            && self.owners.players[player as usize].last_visit == Some(i)
                        {
                            // Who begins after its parent has ended has another clock, and answers in time.
                            let within = self.all.spans.get(place.agent as usize).and_then(ended);
                            let late =
                                within.zip(began(&self.span(i))).is_some_and(|(end, begin)| begin > end);
                            let time = within.filter(|_| late).unwrap_or(end.0);
                            push(Act::Receives, (time, end.1, 3).max((begin.0, begin.1, 2)), parent);
                        }
                    }
                    if self.span(i).end.is_some() {
                        push(Act::Ends, end, player);
                    }
                }
                Work::Guardrail(_) => push(Act::Guards, end, player),
                Work::Decision if place.tool != NONE => {
                    let of = self.owners.of[place.tool as usize];
                    if of != NONE {
                        push(Act::Decides, end, of);
                    }
                }
                Work::Creates(who) if !works(who) => push(Act::Creates, begin, player),
                _ => {}
            }
        }
        rows
    }

    /// Names and ids of the agents that are seen at work.
    fn at_work(&self) -> HashSet<(bool, &str)> {
        let players = self.owners.players.iter().filter(|player| player.agent.is_some());
        players
            .flat_map(|player| [(false, player.who.name), (true, player.who.id)])
            .filter(|(_, text)| !text.is_none())
            .map(|(id, text)| (id, self.all.read(text)))
            .collect()
    }

    /// Finds the acts that say already what the end of an agent would say.
    pub(super) fn close(&mut self, rows: &mut [Row]) {
        let mut last = vec![None; self.owners.players.len()];
        for at in 0..rows.len() {
            let row = rows[at];
            let player = self.owners.players[row.player as usize];
            if row.act == Act::Ends
                && let Some(leaf) = last[row.player as usize].and_then(|l: usize| self.answers(&rows[l]))
                && self.span(row.span).ok != Some(false)
            {
                rows[at].is_repeated = true;
                self.ends_with.push((leaf, row.span));
                if player.last_visit != Some(row.span)
                    && let Some(parent) = player.parent
                {
                    self.says_to.push((leaf, parent));
                }
                continue;
            }
            last[row.player as usize] = Some(at);
        }
        self.ends_with.sort_unstable();
        self.says_to.sort_unstable();
    }

    /// The response of an act, if it ends what its agent does: with a text and nothing asked for, or by handing over.
    pub(super) fn answers(&self, row: &Row) -> Option<u32> {
        let span = self.span(row.span);
        let Work::Generation(generation) = span.work else { return None };
        let failed =
            span.ok == Some(false) || self.failed_by.binary_search_by_key(&row.span, |f| f.0).is_ok();
        let mut declared = self.all.declared(row.span);
        let mut asked_calls = self.asked_calls(row.span).iter();
        let hands_over = declared.clone().any(|call| self.matching.hands_to[call] != NONE)
            || asked_calls.clone().any(|(_, i)| self.matching.tool_hands_to[*i as usize] != NONE);
        let speaks =
            generation.text.is_some() && !failed && declared.next().is_none() && asked_calls.next().is_none();
        (speaks || hands_over).then_some(row.span)
    }

    /// What a response asked for without declaring it.
    fn asked_calls(&self, leaf: u32) -> &[(u32, u32)] {
        let from = self.undeclared.partition_point(|row| row.0 < leaf);
        let to = self.undeclared.partition_point(|row| row.0 <= leaf);
        &self.undeclared[from..to]
    }

    /// A part of a program that failed, though nothing within it did, failed by the last response in it: by the
    /// code or the call that it wrote.
    pub(super) fn fail(&mut self) {
        let n = self.all.spans.len();
        let mut below = vec![false; n];
        let mut last: HashMap<u32, u32> = HashMap::new();
        for &i in self.forest.order.iter().rev() {
            if let Some(parent) = self
                .forest
                .parent
                .get(self.forest.parent[i as usize] as usize)
                .map(|_| self.forest.parent[i as usize])
            {
                below[parent as usize] |= below[i as usize] || self.span(i).ok == Some(false);
            }
            if self.generations.leaf[i as usize] == i {
                let top = self.generations.top[i as usize];
                last.entry(self.forest.places[top as usize].above).or_insert(i);
            }
        }
        for &i in &self.forest.order {
            let span = self.span(i);
            if matches!(span.work, Work::Chain(_))
                && span.ok == Some(false)
                && !below[i as usize]
                && let Some(leaf) = last.get(&i)
            {
                self.failed_by.push((*leaf, i));
            }
        }
        self.failed_by.sort_unstable();
    }
}
