//! Usage that a span states for all work within it: of an agent, a tool or a part of a program whose responses are not
//! recorded, or are recorded without theirs (R7).

use hashbrown::HashMap;

use super::forest::Forest;
use super::matching::Matching;
use super::owners::{Generations, Owners};
use super::{NONE, Spans, Text, Usage, Work};
use crate::error::FindingCode;

/// Tokens and dollars.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    tokens: Option<i64>,
    cost_usd: Option<f64>,
}

impl Spent {
    /// What a usage says was spent; 0 is what sources write where they know nothing.
    fn of(usage: &Usage) -> Self {
        Self {
            tokens: usage.total().filter(|n| *n > 0),
            cost_usd: usage.cost_usd.filter(|cost| *cost > 0.0 && cost.is_finite()),
        }
    }

    fn add(&mut self, other: Self) {
        if let Some(tokens) = other.tokens {
            self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(tokens));
        }
        if let Some(cost) = other.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }
}

/// How many responses, and agents without any, state nothing that is counted.
#[derive(Debug, Clone, Copy, Default)]
struct Silent {
    tokens: u32,
    cost_usd: u32,
}

impl Silent {
    fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.cost_usd += other.cost_usd;
    }

    /// Those that this part of a run is: it has nobody within it who may state something.
    fn part(spent: Spent) -> Self {
        Self { tokens: spent.tokens.is_none().into(), cost_usd: spent.cost_usd.is_none().into() }
    }
}

/// What the spans within a span, or all spans of a trace, state.
#[derive(Debug, Clone, Copy, Default)]
struct Within {
    spent: Spent,
    silent: Silent,
    /// Whether there is a response or an agent.
    works: bool,
}

impl Within {
    fn add(&mut self, other: Self) {
        self.spent.add(other.spent);
        self.silent.add(other.silent);
        self.works |= other.works;
    }
}

/// What a span states of which the spans within it state something, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stated {
    pub span: u32,
    pub tokens: Option<i64>,
    /// Its price, where that is not the sum of the prices within it.
    pub cost_usd: Option<f64>,
}

/// Of all spans of a trace, who states what for more than itself.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// By span, the usage that its event carries, and the model.
    carried: HashMap<u32, (Usage, Text)>,
    /// What is not counted, in the order of the spans.
    pub stated: Vec<Stated>,
    /// Spans whose usage is the sum of that within them.
    pub repeated: Vec<u32>,
    /// Spans that state another sum than the spans within them, and what both say: a conflict, or more where some of
    /// those within state nothing.
    pub differing: Vec<(FindingCode, Option<u32>, String)>,
    /// What is stated of the whole alone.
    pub whole: (Option<i64>, Option<f64>),
    /// What is stated of the whole beside another sum of its spans.
    pub whole_beside: (Option<i64>, Option<f64>),
}

impl Reports {
    pub(super) fn of(
        all: &Spans,
        forest: &Forest,
        generations: &Generations,
        owners: &Owners,
        matching: &Matching,
    ) -> Self {
        let mut reports = Self::default();
        if all.reported.is_empty() && generations.outer.is_empty() && all.whole == Usage::default() {
            return reports;
        }
        let mut outer: HashMap<u32, (Usage, Text)> = generations
            .outer
            .iter()
            .filter_map(|i| match all.spans[*i as usize].work {
                Work::Generation(generation) => Some((*i, (generation.usage, generation.model))),
                _ => None,
            })
            .collect();
        outer.extend(all.reported.iter().map(|(i, usage, model)| (*i, (*usage, *model))));
        let mut below = vec![Within::default(); all.spans.len()];
        let mut within_all = Within::default();
        for &i in forest.order.iter().rev() {
            let work = all.spans[i as usize].work;
            let mut sum = below[i as usize];
            if let Work::Generation(generation) = work
                && generations.leaf[i as usize] == i
            {
                let spent = Spent::of(&generation.usage);
                sum.add(Within { spent, silent: Silent::part(spent), works: true });
            } else if let Some((usage, model)) = outer.get(&i).filter(|_| !matches!(work, Work::Nothing)) {
                sum = reports.judge(i, &work, usage, *model, sum);
            }
            if matches!(work, Work::Agent(_)) && !sum.works {
                sum.silent = Silent::part(sum.spent);
                sum.works = true;
            }
            match forest.parent[i as usize] {
                NONE => within_all.add(sum),
                parent => below[parent as usize].add(sum),
            }
        }
        reports.stated.reverse();
        reports.repeated.reverse();
        reports.differing.reverse();
        reports.settle(all, forest, generations, owners, matching);
        reports.whole_of(&all.whole, within_all);
        reports
    }

    /// What of the usage of a span is used, each of tokens and price if nothing within says it; and what it and the
    /// spans within it state together.
    fn judge(&mut self, i: u32, work: &Work, usage: &Usage, model: Text, below: Within) -> Within {
        let stated = Spent::of(usage);
        let used = Spent {
            tokens: stated.tokens.filter(|_| below.spent.tokens.is_none()),
            cost_usd: stated.cost_usd.filter(|_| below.spent.cost_usd.is_none()),
        };
        if used.tokens.is_some() || used.cost_usd.is_some() {
            let counts = if used.tokens.is_some() { *usage } else { Usage::default() };
            self.carried.insert(i, (Usage { cost_usd: used.cost_usd, ..counts }, model));
        }
        let differs = Difference::of(stated, below);
        let differences = differs.say("it", "the spans within it");
        if differences.is_empty() {
            let both = stated.tokens.is_some() && below.spent.tokens.is_some();
            if both && !matches!(work, Work::Chain(_)) {
                self.repeated.push(i);
            }
        }
        self.differing
            .extend(differences.into_iter().rev().map(|(code, differences)| (code, Some(i), differences)));
        let tokens = stated.tokens.filter(|_| below.spent.tokens.is_some());
        let cost_usd = differs.cost_usd.map(|(stated, ..)| stated);
        if tokens.is_some() || cost_usd.is_some() {
            self.stated.push(Stated { span: i, tokens, cost_usd });
        }
        let mut sum = below;
        sum.spent.add(used);
        // A sum that is that of the others, or stands for all, leaves nobody out.
        if stated.tokens.is_some() && differs.tokens.is_none() {
            sum.silent.tokens = 0;
        }
        if stated.cost_usd.is_some() && differs.cost_usd.is_none() {
            sum.silent.cost_usd = 0;
        }
        sum
    }

    /// Moves what is used to spans that have an event to carry it.
    fn settle(
        &mut self,
        all: &Spans,
        forest: &Forest,
        generations: &Generations,
        owners: &Owners,
        matching: &Matching,
    ) {
        let mut used: Vec<(u32, (Usage, Text))> = std::mem::take(&mut self.carried).into_iter().collect();
        used.sort_unstable_by_key(|(i, _)| *i);
        for (i, (usage, model)) in used {
            let mut at = i;
            let carrier = loop {
                let place = &forest.places[at as usize];
                match all.spans[at as usize].work {
                    Work::Agent(_) if !owners.merged[at as usize] && all.spans[at as usize].end.is_some() => {
                        break Some(at);
                    }
                    Work::Tool(_) if !place.gone && !matching.hands_over[at as usize] => {
                        match matching.agent_in[at as usize] {
                            NONE => break Some(at),
                            agent if all.spans[agent as usize].end.is_some() => break Some(agent),
                            _ => {}
                        }
                    }
                    _ => {}
                }
                at = place.above;
                if at == NONE {
                    break None;
                }
            };
            // A part of a program has no event; its last response has.
            let carrier = carrier.or_else(|| {
                let (from, to) = forest.tour[i as usize];
                let inside = |l: &&u32| (from..to).contains(&forest.tour[**l as usize].0);
                let leaf = |l: &&u32| generations.leaf[**l as usize] == **l;
                forest.order.iter().rev().filter(leaf).find(inside).copied()
            });
            let Some(carrier) = carrier else {
                let spent = Spent::of(&usage);
                let mut sum_of_all = Spent { tokens: self.whole.0, cost_usd: self.whole.1 };
                sum_of_all.add(spent);
                self.whole = (sum_of_all.tokens, sum_of_all.cost_usd);
                continue;
            };
            let (sum, named) = self.carried.entry(carrier).or_default();
            merge(sum, &usage);
            if named.is_none() {
                *named = model;
            }
        }
    }

    /// Compares what is stated of the whole with the sum of its spans.
    fn whole_of(&mut self, usage: &Usage, within: Within) {
        let stated = Spent::of(usage);
        let differences = Difference::of(stated, within).say("the trace", "its spans");
        if !differences.is_empty() {
            self.whole_beside = (stated.tokens, stated.cost_usd);
        }
        self.differing.extend(differences.into_iter().map(|(code, differences)| (code, None, differences)));
        // What no event carries counts beside what events do.
        self.whole.0 = self.whole.0.and(within.spent.tokens);
        self.whole.1 = self.whole.1.and(within.spent.cost_usd);
        self.whole.0 = self.whole.0.or(stated.tokens.filter(|_| within.spent.tokens.is_none()));
        self.whole.1 = self.whole.1.or(stated.cost_usd.filter(|_| within.spent.cost_usd.is_none()));
    }

    /// The usage that the event of a span carries.
    pub(super) fn carried(&self, span: u32) -> Option<(Usage, Text)> {
        self.carried.get(&span).copied()
    }

    /// What a span states beside the spans within it.
    pub(super) fn stated(&self, span: u32) -> Option<Stated> {
        self.stated.iter().find(|stated| stated.span == span).copied()
    }
}

/// Where a stated sum is not that of the parts: both, and how many parts state nothing.
#[derive(Debug, Clone, Copy)]
struct Difference {
    tokens: Option<(i64, i64, u32)>,
    cost_usd: Option<(f64, f64, u32)>,
}

impl Difference {
    /// Prices differ beyond a millionth, since sources round them.
    fn of(stated: Spent, below: Within) -> Self {
        let Within { spent, silent, .. } = below;
        let tokens = stated.tokens.zip(spent.tokens).filter(|(stated, below)| stated != below);
        let price = stated.cost_usd.zip(spent.cost_usd);
        let price = price.filter(|(stated, below)| (stated - below).abs() > 1e-6 * stated.max(*below));
        Self {
            tokens: tokens.map(|(stated, below)| (stated, below, silent.tokens)),
            cost_usd: price.map(|(stated, below)| (stated, below, silent.cost_usd)),
        }
    }

    /// Sentences about it. Where more is stated than the parts show, and some of them state nothing, the sum of the
    /// parts is a floor; else the numbers contradict each other.
    fn say(&self, who: &str, within: &str) -> Vec<(FindingCode, String)> {
        let (mut conflict, mut floor) = (Vec::new(), Vec::new());
        let silence = |n: u32| {
            let verb = if n == 1 { "states" } else { "state" };
            format!("{n} of the responses and agents there {verb} nothing")
        };
        if let Some((own, below, silent)) = self.tokens {
            let difference = format!("{who} states {own} tokens, {within} {below}");
            if own > below && silent > 0 {
                floor.push(format!("{difference}, and {}", silence(silent)));
            } else {
                conflict.push(difference);
            }
        }
        if let Some((own, below, silent)) = self.cost_usd {
            let difference = format!("{who} states USD {own}, {within} USD {below}");
            if own > below && silent > 0 {
                floor.push(format!("{difference}, and {}", silence(silent)));
            } else {
                conflict.push(difference);
            }
        }
        let by_code = [
            (FindingCode::UsageConflict, conflict, "the latter counts"),
            (FindingCode::UsageIncomplete, floor, "the latter counts, as a floor"),
        ];
        let by_code = by_code.into_iter().filter(|(_, sentences, _)| !sentences.is_empty());
        by_code
            .map(|(code, sentences, counts)| (code, format!("{}; {counts}", sentences.join("; "))))
            .collect()
    }
}

/// Adds usage to usage.
pub(super) fn merge(sum: &mut Usage, usage: &Usage) {
    // A total alone cannot be added to parts but as a total.
    let split = |usage: &Usage| usage.tokens_in.is_some() || usage.tokens_out.is_some();
    if Spent::of(sum).tokens.is_some() && split(sum) != split(usage) && Spent::of(usage).tokens.is_some() {
        let tokens = sum.total().zip(usage.total()).map(|(sum, usage)| sum.saturating_add(usage));
        let cost_usd = sum.cost_usd;
        *sum = Usage { tokens, cost_usd, ..Usage::default() };
    } else {
        let counts = [
            (&mut sum.tokens_in, usage.tokens_in),
            (&mut sum.fresh, usage.fresh),
            (&mut sum.tokens_out, usage.tokens_out),
            (&mut sum.tokens, usage.tokens),
            (&mut sum.cached, usage.cached),
            (&mut sum.cache_write, usage.cache_write),
            (&mut sum.cache_write_1h, usage.cache_write_1h),
            (&mut sum.reasoning, usage.reasoning),
        ];
        for (sum, count) in counts {
            if let Some(count) = count {
                *sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        }
    }
    if let Some(cost) = usage.cost_usd {
        sum.cost_usd = Some(sum.cost_usd.unwrap_or(0.0) + cost);
    }
}
