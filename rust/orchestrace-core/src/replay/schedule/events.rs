//! The schedule on k slots, event by event (D10).
//!
//! Non-preemptive list scheduling from time 0: free slots are filled from the events that could begin, the first in the
//! queue first; then time advances to the earliest finish (or release), all finishes of that instant are taken, and so on.
//! An event of no length takes its slot until the finishes of that instant are taken. On a slot that an agent holds
//! ([`Pool::Agents`](super::scenario::Pool)) all of its events run; merged agents run one event at a time.
//!
//! O((|V|+|E|) log k): running events are a heap of at most k, those that could begin a set of bits. Reference: R. L. Graham,
//! Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969: `T_k <= T1/k + T∞ (1 - 1/k)` for any
//! queue, though more slots, less work or fewer edges can all make a schedule longer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::durations::Timing;
use super::ready::RankSet;
use super::work::Work;
use crate::graph::{CsrGraph, NOBODY};

/// In place of a holder: a slot of the event's own.
pub const OWN: u32 = u32::MAX - 1;

/// Priorities, and the events that take a slot.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// Place of each event in the queue.
    pub rank: &'a [u32],
    /// The events in the order of the queue.
    pub row: &'a [u32],
    /// Of each event what holds its slot: the number of an agent, [`OWN`], or [`NOBODY`] where it needs none. Empty if
    /// every event has its own.
    pub holder: &'a [u32],
    /// How many holders there may be.
    pub holders: u32,
    /// How many slots.
    pub slots: u32,
}

/// Times as bits, which are in the order of the times, since none is negative.
type Times = BinaryHeap<Reverse<(u64, u32)>>;

/// The engine and its schedule; a buffer reused from schedule to schedule.
#[derive(Debug, Default)]
pub struct Events {
    /// When each event begins.
    pub start: Vec<f64>,
    /// When it ends.
    pub finish: Vec<f64>,
    /// The end of the last one.
    pub makespan: f64,
    /// The most slots that were taken at a time.
    pub peak: u32,
    /// Slots that were taken, times how long.
    pub busy: f64,
    free: u32,
    waiting: Vec<u32>,
    arrived: Vec<u32>,
    running: Times,
    held: Times,
    /// Events that could begin on a slot, by rank; and those that need no further one.
    ready: RankSet,
    open: RankSet,
    holders: Holders,
    groups: Groups,
}

/// Agents that hold slots, and events that wait for one of theirs.
#[derive(Debug, Default)]
struct Holders {
    /// Running events of each.
    running: Vec<u32>,
    /// The first waiting event of each, and the next one behind each event.
    head: Vec<u32>,
    next: Vec<u32>,
}

/// Merged agents, of which one event runs at a time.
#[derive(Debug, Default)]
struct Groups {
    busy: Vec<bool>,
    /// Ranks of those that wait for their turn.
    waiting: Vec<BinaryHeap<Reverse<u32>>>,
}

impl Events {
    /// Schedules `work`; the successors of `graph`, which has no cycle, are known.
    pub fn run(&mut self, graph: &CsrGraph, timing: &Timing, work: &Work, demand: Demand<'_>) {
        if demand.holder.is_empty() && (work.group.is_empty() || work.serial) {
            self.simulate::<true>(graph, timing, work, demand);
        } else {
            self.simulate::<false>(graph, timing, work, demand);
        }
    }

    fn simulate<const PLAIN: bool>(
        &mut self,
        graph: &CsrGraph,
        timing: &Timing,
        work: &Work,
        demand: Demand<'_>,
    ) {
        self.begin::<PLAIN>(graph, work, demand);
        let mut now = 0.0;
        loop {
            self.sort_in::<PLAIN>(graph, timing, work, demand, now);
            self.fill::<PLAIN>(timing, work, demand, now);
            let next = [self.running.peek(), self.held.peek()].into_iter().flatten().map(|at| at.0.0).min();
            let Some(next) = next else { return };
            self.busy += f64::from(demand.slots - self.free) * (f64::from_bits(next) - now);
            now = f64::from_bits(next);
            while let Some(&Reverse((at, v))) = self.running.peek().filter(|first| first.0.0 == next) {
                self.running.pop();
                self.makespan = self.makespan.max(f64::from_bits(at));
                self.give_back::<PLAIN>(work, demand, v as usize);
                self.pass_on(graph, v as usize);
            }
            while let Some(&Reverse((_, v))) = self.held.peek().filter(|first| first.0.0 == next) {
                self.held.pop();
                self.arrived.push(v);
            }
        }
    }

    fn begin<const PLAIN: bool>(&mut self, graph: &CsrGraph, work: &Work, demand: Demand<'_>) {
        let n = graph.len();
        for column in [&mut self.start, &mut self.finish] {
            column.clear();
            column.resize(n, 0.0);
        }
        (self.makespan, self.busy, self.peak, self.free) = (0.0, 0.0, 0, demand.slots);
        self.waiting.clear();
        self.waiting.extend((0..n).map(|v| graph.in_degree(v)));
        self.arrived.clear();
        self.arrived.extend((0..n as u32).filter(|&v| self.waiting[v as usize] == 0));
        self.ready.begin(n);
        if !PLAIN {
            self.open.begin(n);
            self.holders.begin(n, demand.holders as usize);
            self.groups.begin(work.groups as usize);
        }
    }

    /// What depends on an event that has ended.
    #[inline]
    fn pass_on(&mut self, graph: &CsrGraph, v: usize) {
        for &w in graph.successors_of(v) {
            let waiting = &mut self.waiting[w as usize];
            *waiting -= 1;
            if *waiting == 0 {
                self.arrived.push(w);
            }
        }
    }

    /// Puts events that wait for nothing any more where they wait for a slot. What does not happen is over at once.
    #[inline]
    fn sort_in<const PLAIN: bool>(
        &mut self,
        graph: &CsrGraph,
        timing: &Timing,
        work: &Work,
        demand: Demand<'_>,
        now: f64,
    ) {
        while let Some(v) = self.arrived.pop() {
            let event = v as usize;
            if work.absent(event) {
                (self.start[event], self.finish[event]) = (now, now);
                self.pass_on(graph, event);
            } else if let Some(&release) = timing.release.get(event).filter(|release| **release > now) {
                self.held.push(Reverse((release.to_bits(), v)));
            } else {
                self.enlist::<PLAIN>(demand, v);
            }
        }
    }

    /// An event that could begin.
    #[inline]
    fn enlist<const PLAIN: bool>(&mut self, demand: Demand<'_>, v: u32) {
        let rank = demand.rank[v as usize];
        if PLAIN {
            self.ready.insert(rank);
            return;
        }
        match demand.holder.get(v as usize).copied().unwrap_or(OWN) {
            OWN => self.ready.insert(rank),
            NOBODY => self.open.insert(rank),
            holder if self.holders.running[holder as usize] > 0 => self.open.insert(rank),
            holder => {
                self.ready.insert(rank);
                self.holders.wait(holder, v);
            }
        }
    }

    /// Begins what can begin.
    #[inline]
    fn fill<const PLAIN: bool>(&mut self, timing: &Timing, work: &Work, demand: Demand<'_>, now: f64) {
        loop {
            let slotted = if self.free > 0 { self.ready.first() } else { None };
            let free = if PLAIN { None } else { self.open.first() };
            let Some(rank) = slotted.into_iter().chain(free).min() else { break };
            let v = demand.row[rank as usize];
            let event = v as usize;
            let takes = free != Some(rank);
            if takes {
                self.ready.remove(rank);
            } else {
                self.open.remove(rank);
            }
            if !PLAIN {
                let holder = demand.holder.get(event).copied().unwrap_or(OWN);
                if self.groups.wait(work, event, rank) {
                    continue;
                }
                if let Some(running) = self.holders.running.get_mut(holder as usize) {
                    *running += 1;
                    self.welcome(demand, holder, v);
                }
            }
            self.free -= u32::from(takes);
            self.start[event] = now;
            let end = work.finish(timing, event, now);
            self.finish[event] = end;
            self.running.push(Reverse((end.to_bits(), v)));
        }
        self.peak = self.peak.max(demand.slots - self.free);
    }

    /// An agent has a slot, through event `v`: whatever else of its own could begin needs none.
    fn welcome(&mut self, demand: Demand<'_>, holder: u32, v: u32) {
        let mut at = std::mem::replace(&mut self.holders.head[holder as usize], NOBODY);
        while at != NOBODY {
            if at != v {
                let rank = demand.rank[at as usize];
                self.ready.remove(rank);
                self.open.insert(rank);
            }
            at = self.holders.next[at as usize];
        }
    }

    /// Takes back what an event held.
    #[inline]
    fn give_back<const PLAIN: bool>(&mut self, work: &Work, demand: Demand<'_>, v: usize) {
        if PLAIN {
            self.free += 1;
            return;
        }
        let holder = demand.holder.get(v).copied().unwrap_or(OWN);
        if let Some(running) = self.holders.running.get_mut(holder as usize) {
            *running -= 1;
            self.free += u32::from(*running == 0);
        } else {
            self.free += u32::from(holder == OWN);
        }
        if let Some(rank) = self.groups.leave(work, v) {
            self.arrived.push(demand.row[rank as usize]);
        }
    }
}

impl Holders {
    fn begin(&mut self, n: usize, holders: usize) {
        self.running.clear();
        self.running.resize(holders, 0);
        self.head.clear();
        self.head.resize(holders, NOBODY);
        self.next.clear();
        self.next.resize(n, NOBODY);
    }

    fn wait(&mut self, holder: u32, v: u32) {
        let head = &mut self.head[holder as usize];
        self.next[v as usize] = std::mem::replace(head, v);
    }
}

impl Groups {
    fn begin(&mut self, groups: usize) {
        self.busy.clear();
        self.busy.resize(groups, false);
        self.waiting.iter_mut().for_each(BinaryHeap::clear);
        if self.waiting.len() < groups {
            self.waiting.resize_with(groups, BinaryHeap::new);
        }
    }

    /// Whether an event has to wait for its turn; else it has it.
    fn wait(&mut self, work: &Work, v: usize, rank: u32) -> bool {
        let Some(busy) = work.group.get(v).and_then(|&group| self.busy.get_mut(group as usize)) else {
            return false;
        };
        if *busy {
            self.waiting[work.group[v] as usize].push(Reverse(rank));
            return true;
        }
        *busy = true;
        false
    }

    /// The turn of an event is over; the rank of the next one.
    fn leave(&mut self, work: &Work, v: usize) -> Option<u32> {
        let group = *work.group.get(v)? as usize;
        *self.busy.get_mut(group)? = false;
        self.waiting[group].pop().map(|Reverse(rank)| rank)
    }
}
