//! Tokens of a team, and what its scorers spent (D18).
//!
//! ```text
//! tokens_fresh + tokens_cached + tokens_cache_write + tokens_out = tokens,   if every event records input and output
//! tokens_reasoning is a part of tokens_out
//! cache_share = tokens_cached / (tokens_fresh + tokens_cached + tokens_cache_write)
//! ```
//!
//! Each is a sum over the events that record it; the share is a ratio of such sums. O(|V|).

use crate::error::Reason;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::metrics::usage::{KINDS, TOKENS, add};
use crate::schema::AgentKind;

/// Kinds of tokens.
#[derive(Debug)]
pub struct Usage;

static INFO: GroupInfo = GroupInfo {
    name: "usage",
    cost: Cost::Linear,
    reference: "D18",
    metrics: &[
        TOKENS[0],
        TOKENS[1],
        TOKENS[2],
        TOKENS[3],
        TOKENS[4],
        Metric {
            name: "scorer_tokens",
            count: Count::Tokens,
            summary: "tokens of scorers, which are not part of the \
                                                                        team",
        },
        Metric {
            name: "scorer_cost_usd",
            count: Count::Usd,
            summary: "price of scorers, which are not part of the \
                                                                       team",
        },
        Metric {
            name: "cache_share",
            count: Count::Ratio,
            summary: "share of the tokens read that come from a cache; null if no event records a cache, or the input \
                      beside it",
        },
    ],
};

impl Group for Usage {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::new(Worker)
    }
}

#[derive(Debug)]
struct Worker;

/// What a cache spared the team of reading anew.
fn cache_share(&[fresh, cached, written, ..]: &[Option<i64>; KINDS]) -> Result<f64, Reason> {
    let (Some(cached), Some(fresh)) = (cached, fresh) else { return Err(Reason::FieldAbsent) };
    let read = cached as f64 + fresh as f64 + written.unwrap_or(0) as f64;
    if read > 0.0 { Ok(cached as f64 / read) } else { Err(Reason::RatioEmpty) }
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let (view, owners) = (subject.view, subject.owners);
        let mut sums = [None; KINDS];
        let (mut tokens, mut cost) = (None, None);
        for v in 0..view.len() {
            match owners.outsider(view, v) {
                None => add(&mut sums, view, v),
                Some(AgentKind::Scorer) => {
                    tokens = view.tokens.get(v).map(|n| n.saturating_add(tokens.unwrap_or(0))).or(tokens);
                    cost = view.cost_usd.get(v).map(|usd| usd + cost.unwrap_or(0.0)).or(cost);
                }
                Some(_) => {}
            }
        }
        out.put(KINDS + 2, cache_share(&sums));
        for (at, sum) in sums.into_iter().chain([tokens]).enumerate() {
            out.put(at, sum.map(|sum| sum as f64).ok_or(Reason::FieldAbsent));
        }
        out.put(KINDS + 1, cost.ok_or(Reason::FieldAbsent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::groups::scale::Scale;
    use crate::metrics::testing::measured;
    use crate::schema::EventType;

    #[test]
    fn scorers_and_stand_ins_are_no_cost_of_the_team() {
        let mut t = TestTrace::default();
        t.event(EventType::Message, "a").tokens_out(3);
        t.event(EventType::Message, "b").role("scorer").tokens_out(50);
        t.event(EventType::Message, "c").role("user").tokens_out(7);
        t.event(EventType::Message, "d").role("environment").tokens_out(9);
        t.event(EventType::Message, "a").tokens_out(2);
        let none = Err(Reason::FieldAbsent);
        assert_eq!(measured(&Usage, &t), [none, none, none, Ok(5.0), none, Ok(50.0), none, none]);
        assert_eq!(measured(&Scale, &t)[12], Ok(5.0));
    }

    #[test]
    fn what_nothing_tells_is_null() {
        let mut t = TestTrace::default();
        t.event(EventType::Message, "a").event(EventType::Message, "b").role("scorer");
        assert_eq!(measured(&Usage, &t), [Err(Reason::FieldAbsent); 8]);
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        let share = |fresh, cached, written| cache_share(&[fresh, cached, written, Some(9), None]);
        assert_eq!(share(Some(30), Some(60), Some(10)), Ok(0.6));
        assert_eq!(share(None, Some(5), None), Err(Reason::FieldAbsent));
        assert_eq!(share(Some(30), Some(0), None), Ok(0.0));
        assert_eq!(share(Some(30), None, None), Err(Reason::FieldAbsent));
        assert_eq!(share(Some(0), Some(0), None), Err(Reason::RatioEmpty));
    }
}
