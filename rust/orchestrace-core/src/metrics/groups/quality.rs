//! Quality of the division of work and of its synthesis (D24).
//!
//! Split. Q are the subtasks that events name, Q* those that a key names for the task ([`Options::subtasks`]).
//!
//! ```text
//! coverage |Q ∩ Q*|/|Q*|    precision |Q ∩ Q*|/|Q|    disjointness 1 - Σ_q (agents on q - 1)/#(agent, subtask) pairs
//! balance Σ work / Σ n max work    independence 1 - edges between siblings / edges inside fan-outs
//! ```
//!
//! On a subtask are the agents other than the root that own an event of it; spawns and despawns hand subtasks on and do
//! not count. Siblings are agents of one parent in the spawn forest (those without one together), the root left out; a
//! fan-out is two of them or more, its work the durations of all that they own. With one fan-out balance is the mean over
//! the greatest work. Independence is 1 if no edge is inside. The score is the geometric mean of coverage,
//! disjointness, balance and independence, as far as they are defined, with equal weights; without a named subtask there is none.
//!
//! Aggregation. Quality is the field `score`; inputs of an aggregate are the sources of its aggregate edges, else of its
//! return and message edges. An aggregate counts if it and all its inputs are scored; means are over such aggregates.
//! Leakage compares whole texts by their key, since a recording has no hashes of parts. O(|V| log |V| + |E|).

use xxhash_rust::xxh3::xxh3_128;

use crate::error::Reason;
use crate::graph::{NOBODY, Order};
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::schema::{EdgeType, EventType};

/// Splits and aggregations.
#[derive(Debug)]
pub struct Quality;

static INFO: GroupInfo = GroupInfo {
    name: "quality",
    cost: Cost::Linear,
    reference: "D24",
    metrics: &[
        Metric { name: "n_subtasks", count: Count::Things, summary: "distinct subtasks that events name" },
        Metric {
            name: "split_coverage",
            count: Count::Ratio,
            summary: "share of the key's subtasks that events name; null without a key",
        },
        Metric {
            name: "split_precision",
            count: Count::Ratio,
            summary: "share of the named subtasks that the key contains; null without a key",
        },
        Metric { name: "split_f1", count: Count::Ratio, summary: "harmonic mean of coverage and precision" },
        Metric {
            name: "split_disjointness",
            count: Count::Ratio,
            summary: "1 - share of (agent, subtask) pairs beyond the first agent of each subtask",
        },
        Metric {
            name: "split_balance",
            count: Count::Ratio,
            summary: "mean / largest work of siblings; null without two siblings",
        },
        Metric {
            name: "split_independence",
            count: Count::Ratio,
            summary: "1 - share of the edges inside fan-outs that join two siblings",
        },
        Metric {
            name: "split_score",
            count: Count::Ratio,
            summary: "geometric mean of the defined ones of coverage, disjointness, balance, independence; null \
                      without subtasks",
        },
        Metric {
            name: "aggregation_uplift_max",
            count: Count::Score,
            summary: "score of an aggregate - score of its best input",
        },
        Metric {
            name: "aggregation_uplift_mean",
            count: Count::Score,
            summary: "score of an aggregate - mean score of its inputs",
        },
        Metric {
            name: "aggregation_uplift_majority",
            count: Count::Score,
            summary: "score of an aggregate - (1 if most inputs score ½ or more, else 0)",
        },
        Metric {
            name: "aggregation_capture",
            count: Count::Ratio,
            summary: "uplift over the mean / uplift that the best input would give; only inputs that differ",
        },
        Metric {
            name: "aggregation_coverage",
            count: Count::Ratio,
            summary: "share of the returns to aggregating agents that have a path into an aggregate",
        },
        Metric {
            name: "aggregation_leakage",
            count: Count::Ratio,
            summary: "share of aggregate tokens whose whole text is that of an input; only aggregates with a text key",
        },
        Metric {
            name: "subtask_redundancy",
            count: Count::Ratio,
            summary: "share of the subtasks with an agent on which several work",
        },
    ],
};

/// Place of the share of subtasks that several agents work on: the last.
const SHARED: usize = 14;

impl Group for Quality {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, options: &Options) -> Box<dyn Measure> {
        Box::new(Worker { options: options.clone(), ..Worker::default() })
    }
}

#[derive(Debug, Default)]
struct Worker {
    options: Options,
    /// Subtasks and the agents on them, ascending; [`NOBODY`] stands for the subtask alone.
    pairs: Vec<(u128, u32)>,
    /// Of each name what its siblings share; [`NOBODY`] where it has none.
    family: Vec<u32>,
    work: Vec<f64>,
    families: Vec<Family>,
    /// Edges into aggregates: where to, whether by another edge than aggregate, where from.
    inputs: Vec<(u32, bool, u32)>,
    leads: Vec<bool>,
    aggregates: Vec<bool>,
}

/// Siblings.
#[derive(Debug, Clone, Copy, Default)]
struct Family {
    members: u32,
    most: f64,
    all: f64,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let parts = [
            self.named(subject, out),
            self.disjointness(out),
            self.balance(subject, out),
            self.independence(subject, out),
        ];
        let present = || parts.iter().flatten();
        let n = present().count();
        if self.pairs.is_empty() {
            // nothing was split that anybody could name
            out.absent(7, Reason::FieldAbsent);
        } else if n == 0 {
            out.absent(7, Reason::RatioEmpty);
        } else {
            out.set(7, present().product::<f64>().powf(1.0 / n as f64));
        }
        self.aggregations(subject, out);
        self.coverage(subject, out);
    }
}

/// Edges into an aggregate that count where there is no aggregate edge.
const OTHERS: [u8; 2] = [EdgeType::Return as u8, EdgeType::Message as u8];

impl Worker {
    /// Subtasks, and how they compare with the key; the coverage.
    fn named(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) -> Option<f64> {
        let (view, root) = (subject.view, subject.root());
        self.pairs.clear();
        for v in 0..view.len() {
            let Some(subtask) = view.subtask_id.get(v) else { continue };
            let subtask = xxh3_128(subtask.as_bytes());
            let owner = subject.owner(v);
            let works = owner != root && !subject.is(v, &[EventType::Spawn, EventType::Despawn]);
            self.pairs.push((subtask, NOBODY));
            if works && owner != NOBODY {
                self.pairs.push((subtask, owner));
            }
        }
        if self.pairs.is_empty() {
            out.all_absent(0..4, Reason::FieldAbsent);
            return None;
        }
        self.pairs.sort_unstable();
        self.pairs.dedup();
        let named = self.pairs.iter().filter(|pair| pair.1 == NOBODY).count();
        out.count(0, named);
        let Some(key) = self.options.subtasks.get(view.task_id) else {
            out.all_absent(1..4, Reason::SupportAbsent);
            return None;
        };
        let is_named =
            |key_name: &&String| self.pairs.binary_search(&(xxh3_128(key_name.as_bytes()), NOBODY)).is_ok();
        let hits = key.iter().filter(is_named).count() as f64;
        out.ratio(1, hits, key.len() as f64);
        out.ratio(2, hits, named as f64);
        out.ratio(3, 2.0 * hits, (named + key.len()) as f64);
        (!key.is_empty()).then(|| hits / key.len() as f64)
    }

    fn disjointness(&self, out: &mut Row<'_>) -> Option<f64> {
        let (mut pairs, mut beyond, mut worked, mut shared) = (0, 0, 0, 0);
        for agents in self.pairs.chunk_by(|a, b| a.0 == b.0).map(|of| of.len() - 1) {
            pairs += agents;
            beyond += agents.saturating_sub(1);
            worked += usize::from(agents > 0);
            shared += usize::from(agents > 1);
        }
        if pairs == 0 {
            let reason = if self.pairs.is_empty() { Reason::FieldAbsent } else { Reason::RatioEmpty };
            out.absent(4, reason);
            out.absent(SHARED, reason);
            return None;
        }
        out.set(SHARED, shared as f64 / worked as f64);
        let disjoint = 1.0 - beyond as f64 / pairs as f64;
        out.set(4, disjoint);
        Some(disjoint)
    }

    /// Finds the siblings, too.
    fn balance(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) -> Option<f64> {
        let (names, root) = (subject.owners.names(), subject.root());
        self.family.clear();
        self.family.extend(names.iter().enumerate().map(|(at, name)| {
            let sub_agent = name.is_agent() && at as u32 != root;
            if sub_agent { name.parent().unwrap_or(names.len() as u32) } else { NOBODY }
        }));
        self.work.clear();
        self.work.resize(names.len(), 0.0);
        if let Ok(timing) = subject.timing() {
            for (v, &duration) in timing.duration.iter().enumerate() {
                if let Some(work) = self.work.get_mut(subject.owner(v) as usize) {
                    *work += duration;
                }
            }
        }
        self.families.clear();
        self.families.resize(names.len() + 1, Family::default());
        for (&family, &work) in self.family.iter().zip(&self.work) {
            if let Some(of) = self.families.get_mut(family as usize) {
                of.members += 1;
                of.most = of.most.max(work);
                of.all += work;
            }
        }
        let fan_outs = || self.families.iter().filter(|of| of.members > 1);
        if let (Err(reason), true) = (subject.timing(), fan_outs().next().is_some()) {
            out.absent(5, reason);
            return None;
        }
        let most = fan_outs().map(|of| f64::from(of.members) * of.most).sum::<f64>();
        let all = fan_outs().map(|of| of.all).sum();
        out.ratio(5, all, most);
        (most > 0.0).then(|| all / most)
    }

    fn independence(&self, subject: &Subject<'_>, out: &mut Row<'_>) -> Option<f64> {
        if self.families.iter().all(|of| of.members < 2) {
            out.absent(6, Reason::RatioEmpty);
            return None;
        }
        let family = |owner: u32| self.family.get(owner as usize).copied().unwrap_or(NOBODY);
        let (mut inside, mut across) = (0_usize, 0_usize);
        for v in 0..subject.graph().len() {
            let ours = family(subject.owner(v));
            if ours == NOBODY || self.families[ours as usize].members < 2 {
                continue;
            }
            for &u in subject.graph().predecessors_of(v) {
                if family(subject.owner(u as usize)) == ours {
                    inside += 1;
                    across += usize::from(subject.owner(u as usize) != subject.owner(v));
                }
            }
        }
        let independent = if inside == 0 { 1.0 } else { 1.0 - across as f64 / inside as f64 };
        out.set(6, independent);
        Some(independent)
    }

    fn aggregations(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let view = subject.view;
        self.inputs.clear();
        for ((&s, &d), &kind) in view.src.iter().zip(view.dst).zip(view.edge_types) {
            let other = kind != EdgeType::Aggregate as u8;
            if subject.is(d as usize, &[EventType::Aggregate]) && (!other || OTHERS.contains(&kind)) {
                self.inputs.push((d, other, s));
            }
        }
        self.inputs.sort_unstable();
        self.inputs.dedup();
        let content = |v: u32| view.text_key(v as usize);
        let mut sums = [0.0; 3];
        let (mut scored, mut capture, mut captured) = (0.0, 0.0, 0.0);
        let (mut copied, mut tokens) = (0.0, None);
        for of in self.inputs.chunk_by(|a, b| a.0 == b.0) {
            let n_own = of.partition_point(|input| !input.1);
            let of = if n_own > 0 { &of[..n_own] } else { of };
            let y = of[0].0;
            if let (Some(text), Some(size)) = (content(y), subject.tokens(y as usize)) {
                tokens = Some(tokens.unwrap_or(0.0) + size as f64);
                let copies = of.iter().any(|input| content(input.2) == Some(text));
                copied += if copies { size as f64 } else { 0.0 };
            }
            let Some(score) = view.score.get(y as usize) else { continue };
            let (mut best, mut sum, mut votes) = (f64::NEG_INFINITY, 0.0, 0_usize);
            let all = of.iter().all(|input| {
                view.score.get(input.2 as usize).is_some_and(|q| {
                    best = best.max(q);
                    sum += q;
                    votes += usize::from(q >= 0.5);
                    true
                })
            });
            if !all {
                continue;
            }
            let mean = sum / of.len() as f64;
            let majority = if 2 * votes > of.len() { 1.0 } else { 0.0 };
            for (sum, other) in sums.iter_mut().zip([best, mean, majority]) {
                *sum += score - other;
            }
            scored += 1.0;
            // what only rounding makes differ does not differ
            if best - mean > f64::EPSILON * best.abs() {
                capture += (score - mean) / (best - mean);
                captured += 1.0;
            }
        }
        let unscored = !self.inputs.is_empty() && scored == 0.0;
        if unscored {
            out.all_absent(8..12, Reason::FieldAbsent);
        } else {
            sums.iter().enumerate().for_each(|(at, &sum)| out.ratio(8 + at, sum, scored));
            out.ratio(11, capture, captured);
        }
        match tokens {
            None if !self.inputs.is_empty() => out.absent(13, Reason::FieldAbsent),
            tokens => out.ratio(13, copied, tokens.unwrap_or(0.0)),
        }
    }

    /// Whether the inputs of agents reached what they aggregated.
    fn coverage(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let (view, graph, n) = (subject.view, subject.graph(), subject.view.len());
        self.aggregates.clear();
        self.aggregates.resize(subject.owners.names().len(), false);
        self.leads.clear();
        self.leads.resize(n, false);
        for v in (0..n).filter(|&v| subject.is(v, &[EventType::Aggregate])) {
            self.leads[v] = true;
            if let Some(owns) = self.aggregates.get_mut(subject.owner(v) as usize) {
                *owns = true;
            }
        }
        let leads = &mut self.leads;
        let mut visit = |v: usize| {
            if leads[v] {
                graph.predecessors_of(v).iter().for_each(|&u| leads[u as usize] = true);
            }
        };
        match subject.order() {
            None => return out.absent(12, Reason::GraphCycle),
            Some(Order::Document(n)) => (0..n).rev().for_each(&mut visit),
            Some(Order::Listed(rows)) => rows.iter().rev().for_each(|&v| visit(v as usize)),
        }
        let to_aggregator = |v: usize| {
            let to = view.to.get(v).and_then(|to| subject.owners.name_index(to));
            to.is_some_and(|to| self.aggregates[to as usize] && to != subject.owner(v))
        };
        let returns = (0..n).filter(|&v| subject.is(v, &[EventType::Return]) && to_aggregator(v));
        let (arrived, all) = returns
            .fold((0_usize, 0_usize), |(arrived, all), v| (arrived + usize::from(self.leads[v]), all + 1));
        out.ratio(12, arrived as f64, all as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::{Measured, measured, measured_with};
    use crate::store::view::TraceView;
    use EventType::*;

    const EMPTY: Measured = Err(Reason::RatioEmpty);
    const ABSENT: Measured = Err(Reason::FieldAbsent);
    const NO_KEY: Measured = Err(Reason::SupportAbsent);

    /// A root that spawns b and c; each works on a subtask and returns, one aggregate.
    fn split(works: &[(&str, &str, f64)]) -> TestTrace {
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "boss").duration(1.0);
        t.event(Spawn, "boss").to("b").subtask("one").duration(0.0);
        t.event(Spawn, "boss").to("c").subtask("two").duration(0.0);
        for (agent, subtask, seconds) in works {
            t.event(ToolCall, agent).subtask(subtask).duration(*seconds);
        }
        t
    }

    #[test]
    fn an_equal_disjoint_split_is_perfect() {
        let t = split(&[("b", "one", 2.0), ("c", "two", 2.0)]);
        let values = measured(&Quality, &t);
        assert_eq!(values[..4], [Ok(2.0), NO_KEY, NO_KEY, NO_KEY]);
        assert_eq!(values[4..8], [Ok(1.0); 4]);
        assert_eq!(values[8..SHARED], [EMPTY; 6]);
        assert_eq!(values[SHARED], Ok(0.0));
        // one subtask is done twice
        let again = measured(&Quality, &split(&[("b", "one", 2.0), ("c", "two", 1.0), ("c", "one", 1.0)]));
        assert_eq!(again[4], Ok(1.0 - 1.0 / 3.0));
        assert_eq!(again[5], Ok(1.0));
        assert_eq!(again[SHARED], Ok(0.5));
        assert_eq!(again[7], Ok((2.0_f64 / 3.0).powf(1.0 / 3.0)));
    }

    #[test]
    fn the_key_of_a_task_tells_what_is_missing() {
        let t = split(&[("b", "one", 3.0), ("c", "two", 1.0)]);
        let key = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<BTreeSet<_>>();
        let subtasks = [("task".to_owned(), key(&["one", "three", "four"])), ("none".to_owned(), key(&[]))];
        let options = Options { subtasks: Arc::new(subtasks.into()), ..Options::default() };
        let of = |task_id| measured_with(&Quality, &TraceView { task_id, ..t.view() }, &options);
        let values = of("task");
        assert_eq!(values[..4], [Ok(2.0), Ok(1.0 / 3.0), Ok(0.5), Ok(0.4)]);
        // 4 of 6 seconds that two agents as slow as b would have worked
        assert_eq!(values[5], Ok(4.0 / 6.0));
        assert_eq!(values[7], Ok((1.0 / 3.0 * (4.0 / 6.0_f64)).powf(0.25)));
        assert_eq!(of("none")[..4], [Ok(2.0), EMPTY, Ok(0.0), Ok(0.0)]);
        assert_eq!(of("other")[..4], [Ok(2.0), NO_KEY, NO_KEY, NO_KEY]);
    }

    #[test]
    fn siblings_that_wait_for_each_other_are_not_independent() {
        let mut t = split(&[("b", "one", 1.0), ("b", "one", 1.0), ("c", "two", 1.0)]);
        t.edge(3, 4, EdgeType::Temporal).edge(0, 3, EdgeType::Spawn);
        assert_eq!(measured(&Quality, &t)[6], Ok(1.0));
        t.edge(4, 5, EdgeType::Message).edge(4, 5, EdgeType::Causal);
        assert_eq!(measured(&Quality, &t)[6], Ok(0.5), "edges of the same ends are one");
        // agents of two parents are no siblings, and one alone has none
        let mut other = TestTrace::default();
        other.event(OrchestratorDecision, "boss").event(Spawn, "boss").to("b");
        other.event(ToolCall, "b").event(ToolCall, "c").edge(2, 3, EdgeType::Message);
        let values = measured(&Quality, &other);
        assert_eq!(values[..8], [ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, EMPTY, EMPTY, ABSENT]);
    }

    /// Scored inputs and an aggregate of them by `boss`.
    fn aggregate(scores: &[f64], own_score: f64) -> TestTrace {
        let mut t = TestTrace::default();
        for &score in scores {
            t.event(Return, "b").to("boss").score(score).tokens_out(5);
        }
        t.event(Aggregate, "boss").score(own_score).tokens_out(10);
        (0..scores.len() as u32).for_each(|v| {
            t.edge(v, scores.len() as u32, EdgeType::Aggregate);
        });
        t
    }

    #[test]
    fn taking_the_best_input_captures_everything() {
        let t = aggregate(&[0.25, 0.5, 1.0, 0.25], 1.0);
        assert_eq!(
            measured(&Quality, &t)[8..],
            [Ok(0.0), Ok(0.5), Ok(1.0), Ok(1.0), Ok(1.0), ABSENT, ABSENT]
        );
        let all_alike = aggregate(&[0.5, 0.5], 0.75);
        assert_eq!(measured(&Quality, &all_alike)[8..12], [Ok(0.25), Ok(0.25), Ok(-0.25), EMPTY]);
        let mut unscored = aggregate(&[0.5, 0.5], 0.75);
        unscored.event(Return, "b").to("boss").edge(3, 2, EdgeType::Aggregate);
        assert_eq!(measured(&Quality, &unscored)[8..12], [ABSENT; 4]);
    }

    #[test]
    fn returns_that_nobody_used_and_texts_that_were_copied() {
        let mut t = aggregate(&[0.5, 1.0], 0.5);
        t.event(Return, "c").to("boss").event(Return, "c").to("a").event(Return, "boss").to("boss");
        assert_eq!(measured(&Quality, &t)[12], Ok(2.0 / 3.0));
        // a second aggregate, of messages since no aggregate edge leads there, copies one of them
        t.event(Message, "b").content("x").event(Aggregate, "boss").content("x").tokens_out(30);
        t.edge(6, 7, EdgeType::Message).edge(0, 7, EdgeType::Temporal);
        assert_eq!(measured(&Quality, &t)[13], Ok(1.0));
        let mut reused = aggregate(&[0.5, 1.0], 0.5);
        reused.event(Aggregate, "boss").content("y").tokens_out(30).event(Message, "b").content("y");
        reused.event(Message, "c").content("z").edge(5, 3, EdgeType::Aggregate).edge(4, 3, EdgeType::Message);
        assert_eq!(measured(&Quality, &reused)[13], Ok(0.0), "aggregate edges alone, where there are any");
        reused.edge(3, 3, EdgeType::Causal);
        assert_eq!(measured(&Quality, &reused)[12], Err(Reason::GraphCycle));
    }
}
