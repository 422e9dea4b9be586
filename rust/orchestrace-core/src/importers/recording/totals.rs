//! Sums and counts that a source states beside what it holds (R7).

use std::cmp::Ordering;

use super::{Act, Agent, Entry, Recording, Usage};
use crate::error::FindingCode;
use crate::schema::MeasureKind;

impl Recording {
    /// Whether nothing was described.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Usage of all responses but the first so many.
    pub(crate) fn usages(&self, from: usize) -> impl Iterator<Item = Usage> {
        let responses = self.responses.get(from..).unwrap_or_default();
        responses.iter().filter_map(|(entry, _)| self.usage_of(*entry))
    }

    /// Usage of the responses of an agent, in their order.
    pub(crate) fn usages_of(&self, agent: Agent) -> impl Iterator<Item = Usage> + use<> {
        let response = |at: u32| self.responses.get(at as usize).copied();
        let last = self.last_responses.get(agent.0 as usize).and_then(|at| response(*at));
        let responses = std::iter::successors(last, |(_, before)| response(*before));
        let usages: Vec<Usage> = responses.filter_map(|(entry, _)| self.usage_of(entry)).collect();
        usages.into_iter().rev()
    }

    /// The last response.
    pub(crate) fn newest_response(&self) -> Option<Entry> {
        self.responses.last().map(|(entry, _)| *entry)
    }

    fn usage_of(&self, response: Entry) -> Option<Usage> {
        match &self.entries[response.0 as usize].act {
            Act::Response(response) => Some(response.usage),
            _ => None,
        }
    }

    /// Says that a source states another total of an agent, or of all, than its responses sum to. Where it is more,
    /// and some of them state nothing, their sum is a floor.
    pub(crate) fn other_total(
        &mut self,
        at: Option<Entry>,
        agent: Option<Agent>,
        stated: i64,
        sum: i64,
        (whole, parts): (&str, &str),
    ) {
        let is_silent = |usage: &Usage| usage.total().unwrap_or(0) <= 0;
        let silent = match agent {
            Some(agent) => self.usages_of(agent).filter(is_silent).count(),
            None => self.usages(0).filter(is_silent).count(),
        };
        let difference = format!("{whole} {stated} tokens, but {parts} sum to {sum}");
        if stated > sum && silent > 0 {
            let verb = if silent == 1 { "states" } else { "state" };
            let message =
                format!("{difference}, and {silent} of the responses {verb} nothing; the sum is a floor");
            self.finding(FindingCode::UsageIncomplete, at, message);
        } else {
            self.finding(FindingCode::UsageRepeated, at, difference);
        }
    }

    /// Compares what a source states of how much it holds with what is there: `statement` is its name, `held` what is
    /// counted.
    pub(crate) fn claims(&mut self, statement: &str, (claimed, held): (i64, usize), things: &str) {
        let count = i64::try_from(held).unwrap_or(i64::MAX);
        let code = match claimed.cmp(&count) {
            Ordering::Equal => return,
            Ordering::Greater => FindingCode::SourceIncomplete,
            Ordering::Less => FindingCode::SourceSurplus,
        };
        self.finding(code, None, format!("{statement} is {claimed}, {things} found: {held}"));
    }

    /// Gives responses their prices, which are listed in the order of the responses; not if there are more or fewer.
    pub(crate) fn price_responses(&mut self, prices: &[f64]) {
        let responses = self.entries.iter_mut().filter_map(|entry| match &mut entry.act {
            Act::Response(response) => Some(response),
            _ => None,
        });
        let responses: Vec<&mut super::Response> = responses.collect();
        if responses.len() == prices.len() {
            for (response, price) in responses.into_iter().zip(prices) {
                response.usage.cost_usd = response.usage.cost_usd.or(Some(*price));
            }
        }
    }

    /// The price that a benchmark states of a whole run, under the name that it has there: it counts unless what the run
    /// consists of costs more. `measure` is the name of the cost.
    pub(crate) fn price_of_run(&mut self, name: &str, stated: f64, (measure, parts): (&str, f64)) {
        if parts > stated + 1e-9 * parts {
            let message = format!("{name} is {stated}, the messages cost {parts} in all, which is used");
            self.finding(FindingCode::UsageConflict, None, message);
        } else {
            self.measure(MeasureKind::Cost, measure, stated);
        }
    }

    /// Says how many responses repeat those of other traces, by their ids, and how many tokens these are here (R12).
    pub(crate) fn inherits(&mut self, mut by_trace: Vec<(&str, (u64, i64))>) {
        if by_trace.is_empty() {
            return;
        }
        by_trace.sort_unstable();
        let tokens: i64 = by_trace.iter().map(|(_, (_, tokens))| tokens).sum();
        self.measure(MeasureKind::Cost, "tokens_inherited", tokens as f64);
        for (name, (responses, tokens)) in by_trace {
            let message = format!(
                "{responses} responses ({tokens} tokens as recorded here) repeat those of trace '{name}', where they count"
            );
            self.finding(FindingCode::UsageInherited, None, message);
        }
    }
}
