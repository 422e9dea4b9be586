//! Diversity of a team: how differently its agents act.
//!
//! An agent is the distribution of (type, tool) over the events it owns. Distances are Jensen-Shannon distances, the
//! square root of the divergence in bits, 0 to 1. An agent's strategy is its most frequent (type, tool), ties to the type
//! that the schema lists first, then to the tool that the trace uses first; effective strategies are e^H over these.
//! O(|V| log |V| + n² s), n agents of s kinds each; beyond [`MOST_ACTS`] the distance is null. References: J. Lin, IEEE
//! Trans. Inf. Theory 37(1), 1991; D. Endres, J. Schindelin, IEEE Trans. Inf. Theory 49(7), 2003; M. O. Hill, Ecology
//! 54(2), 1973 (effective numbers).

use std::cmp::Ordering;

use crate::error::Reason;
use crate::graph::NOBODY;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::surrogate::Cost as Visits;

/// Acts that pairs of agents are compared by, at most: each takes two logarithms, all of them a minute of one core.
const MOST_ACTS: Visits = Visits::Count(1 << 32);

/// Diversity of agents.
#[derive(Debug)]
pub struct Diversity;

static INFO: GroupInfo = GroupInfo {
    name: "diversity",
    cost: Cost::SuperLinear,
    reference: "D18; Lin 1991; Endres and Schindelin 2003",
    metrics: &[
        Metric {
            name: "behavior_distance",
            count: Count::Ratio,
            summary: "mean Jensen-Shannon distance (base 2) between the (type, tool) of two agents; null for one agent",
        },
        Metric {
            name: "effective_strategies",
            count: Count::Ratio,
            summary: "e^H over agents, grouped by their most frequent (type, tool)",
        },
    ],
};

impl Group for Diversity {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

/// What an event does: its type, and the first event with its tool, one up so that 0 is no tool.
type Act = (u8, usize);

#[derive(Debug, Default)]
struct Worker {
    /// Tools and the first event of each, by code. Codes are of a corpus, and a part of it has others.
    tools: Vec<(u32, usize)>,
    /// Agents and what they do, an entry for each event, then for each distinct act.
    acts: Vec<(u32, Act)>,
    counts: Vec<(Act, f64)>,
    /// Where the counts of each agent end.
    ends: Vec<usize>,
    strategies: Vec<Act>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        self.count(subject);
        let n = self.ends.len();
        if n == 0 {
            return out.all_absent(0..2, Reason::RatioEmpty);
        }
        let of = |agent: usize| {
            let from = if agent == 0 { 0 } else { self.ends[agent - 1] };
            &self.counts[from..self.ends[agent]]
        };
        if Visits::of(n).times(Visits::of(self.counts.len())) > MOST_ACTS {
            out.absent(0, Reason::BudgetExceeded);
        } else {
            let mut sum = 0.0;
            for i in 0..n {
                for j in 0..i {
                    sum += distance(of(i), of(j));
                }
            }
            out.ratio(0, sum, (n * (n - 1) / 2) as f64);
        }
        self.strategies.clear();
        for agent in 0..n {
            // the first of the most frequent: acts ascend
            let most =
                of(agent).iter().fold(((0, 0), 0.0), |best, &one| if one.1 > best.1 { one } else { best });
            self.strategies.push(most.0);
        }
        self.strategies.sort_unstable();
        let shares = self.strategies.chunk_by(|a, b| a == b).map(|same| same.len() as f64 / n as f64);
        let entropy = shares.map(|p| -p * p.ln()).sum::<f64>();
        out.set(1, entropy.max(0.0).exp());
    }
}

impl Worker {
    /// Shares of the acts of each agent, by agent, then act.
    fn count(&mut self, subject: &Subject<'_>) {
        let view = subject.view;
        self.tools.clear();
        self.tools.extend((0..view.len()).filter_map(|v| Some((view.tool.get(v)?, v))));
        self.tools.sort_unstable();
        self.tools.dedup_by_key(|used| used.0);
        let first_use =
            |tool| self.tools.binary_search_by_key(&tool, |used| used.0).map_or(0, |at| self.tools[at].1);
        self.acts.clear();
        for v in 0..view.len() {
            let owner = subject.owner(v);
            if owner != NOBODY {
                let tool = view.tool.get(v).map_or(0, |tool| first_use(tool) + 1);
                self.acts.push((owner, (view.types[v], tool)));
            }
        }
        self.acts.sort_unstable();
        self.counts.clear();
        self.ends.clear();
        for agent in self.acts.chunk_by(|a, b| a.0 == b.0) {
            let all = agent.len() as f64;
            let same = agent.chunk_by(|a, b| a.1 == b.1);
            self.counts.extend(same.map(|same| (same[0].1, same.len() as f64 / all)));
            self.ends.push(self.counts.len());
        }
    }
}

/// Jensen-Shannon distance, base 2, of two distributions whose acts ascend.
fn distance(a: &[(Act, f64)], b: &[(Act, f64)]) -> f64 {
    // half of p log2(p / m), m being the mean of both
    let half = |p: f64, m: f64| if p > 0.0 { 0.5 * p * (p / m).log2() } else { 0.0 };
    let (mut i, mut j, mut bits) = (0, 0, 0.0);
    while i < a.len() || j < b.len() {
        let order = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.0.cmp(&y.0),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let (p, q) = match order {
            Ordering::Less => (a[i].1, 0.0),
            Ordering::Greater => (0.0, b[j].1),
            Ordering::Equal => (a[i].1, b[j].1),
        };
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
        let m = f64::midpoint(p, q);
        bits += half(p, m) + half(q, m);
    }
    bits.clamp(0.0, 1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::measured;
    use crate::schema::EventType::*;

    #[test]
    fn agents_with_nothing_in_common_are_1_apart() {
        let mut t = TestTrace::default();
        t.event(Message, "a").event(ToolCall, "b").tool("web");
        assert_eq!(measured(&Diversity, &t), [Ok(1.0), Ok(2.0_f64.ln().exp())]);
        // the same call, another tool: another act
        t.event(ToolCall, "c").tool("shell").event(ToolCall, "c").tool("shell");
        assert_eq!(measured(&Diversity, &t)[0], Ok(1.0));
        let mut alike = TestTrace::default();
        alike.event(Message, "a").event(Message, "b").event(Message, "b").event(Message, "user");
        assert_eq!(measured(&Diversity, &alike), [Ok(0.0), Ok(1.0)]);
        assert_eq!(measured(&Diversity, &TestTrace::events(3)), [Err(Reason::RatioEmpty), Ok(1.0)]);
        let mut nobody = TestTrace::default();
        nobody.event(Message, "user");
        assert_eq!(measured(&Diversity, &nobody), [Err(Reason::RatioEmpty); 2]);
    }

    #[test]
    fn half_in_common() {
        // a: ½ message ½ call; b: message. m: ¾ message ¼ call
        let mut t = TestTrace::default();
        t.event(ToolCall, "a").event(Message, "a").event(Message, "b");
        let bits = 0.5 * (0.5 * (0.5_f64 / 0.75).log2() + 0.5 * 2.0_f64.log2() + (1.0 / 0.75_f64).log2());
        let [Ok(found), Ok(strategies)] = measured(&Diversity, &t)[..] else { panic!("both are told") };
        assert!((found - bits.sqrt()).abs() < 1e-15, "{found}");
        // of a's two acts, as frequent, the message is the type that is listed first
        assert_eq!(strategies, 1.0);
    }

    #[test]
    fn effective_strategies_weigh_agents() {
        let mut t = TestTrace::default();
        t.event(Message, "a").event(Message, "b").event(ToolCall, "c").event(Return, "d");
        t.event(Message, "d").event(Message, "d");
        let h = -(0.75 * 0.75_f64.ln() + 0.25 * 0.25_f64.ln());
        let Ok(found) = measured(&Diversity, &t)[1] else { panic!("it is told") };
        assert!((found - h.exp()).abs() < 1e-15);
    }
}
