//! Usage that a span states for all work within it: of an agent, a tool or a part of a program whose responses are not
//! recorded, or are recorded without theirs (R7).

use hashbrown::HashMap;

use super::forest::Forest;
use super::matching::Matching;
use super::owners::{Generations, Owners};
use super::{NONE, Spans, Text, Usage, Work};

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
    /// Spans that state another sum than the spans within them, and what both say.
    pub differing: Vec<(Option<u32>, String)>,
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
        let mut below = vec![Spent::default(); all.spans.len()];
        let mut within_all = Spent::default();
        for &i in forest.order.iter().rev() {
            let work = all.spans[i as usize].work;
            if let Work::Generation(generation) = work
                && generations.leaf[i as usize] == i
            {
                below[i as usize].add(Spent::of(&generation.usage));
            } else if let Some((usage, model)) = outer.get(&i).filter(|_| !matches!(work, Work::Nothing)) {
                let spent = reports.judge(i, &work, usage, *model, below[i as usize]);
                below[i as usize].add(spent);
            }
            let sum = below[i as usize];
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

    /// What of the usage of a span is used: each of tokens and price if nothing within says it.
    fn judge(&mut self, i: u32, work: &Work, usage: &Usage, model: Text, below: Spent) -> Spent {
        let own = Spent::of(usage);
        let used = Spent {
            tokens: own.tokens.filter(|_| below.tokens.is_none()),
            cost_usd: own.cost_usd.filter(|_| below.cost_usd.is_none()),
        };
        if used.tokens.is_some() || used.cost_usd.is_some() {
            let counts = if used.tokens.is_some() { *usage } else { Usage::default() };
            self.carried.insert(i, (Usage { cost_usd: used.cost_usd, ..counts }, model));
        }
        let (differs, said) = compare("it", "the spans within it", own, below);
        if let Some(said) = said {
            self.differing.push((Some(i), said));
        } else if (own.tokens.is_some() && below.tokens.is_some()) && !matches!(work, Work::Chain(_)) {
            self.repeated.push(i);
        }
        let tokens = own.tokens.filter(|_| below.tokens.is_some());
        if tokens.is_some() || differs.cost_usd.is_some() {
            self.stated.push(Stated { span: i, tokens, cost_usd: differs.cost_usd });
        }
        used
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
                let mut whole = Spent { tokens: self.whole.0, cost_usd: self.whole.1 };
                whole.add(spent);
                self.whole = (whole.tokens, whole.cost_usd);
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
    fn whole_of(&mut self, usage: &Usage, within: Spent) {
        let own = Spent::of(usage);
        let (_, said) = compare("the trace", "its spans", own, within);
        if let Some(said) = said {
            self.differing.push((None, said));
            self.whole_beside = (own.tokens, own.cost_usd);
        }
        self.whole.0 = self.whole.0.or(own.tokens.filter(|_| within.tokens.is_none()));
        self.whole.1 = self.whole.1.or(own.cost_usd.filter(|_| within.cost_usd.is_none()));
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

/// Where two sums differ, and a sentence about it; prices to a millionth, since sources round them.
fn compare(who: &str, within: &str, own: Spent, below: Spent) -> (Spent, Option<String>) {
    let tokens = own.tokens.zip(below.tokens).filter(|(own, below)| own != below);
    let price =
        own.cost_usd.zip(below.cost_usd).filter(|(own, below)| (own - below).abs() > 1e-6 * own.max(*below));
    let mut parts = Vec::new();
    if let Some((own, below)) = tokens {
        parts.push(format!("{who} states {own} tokens, {within} {below}"));
    }
    if let Some((own, below)) = price {
        parts.push(format!("{who} states USD {own}, {within} USD {below}"));
    }
    let said = (!parts.is_empty()).then(|| parts.join("; "));
    (Spent { tokens: tokens.map(|pair| pair.0), cost_usd: price.map(|pair| pair.0) }, said)
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
