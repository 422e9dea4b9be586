//! Delegation: who receives work, and how concentrated it is (D18). O(|V|).
//!
//! Of the p over delegates: entropy H = -Σ p ln p, normalized H / ln n, effective agents e^H, dominance Σ p².

use crate::error::Reason;
use crate::graph::slots::Slots;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::schema::EventType;

/// Delegations.
#[derive(Debug)]
pub struct Delegation;

static INFO: GroupInfo = GroupInfo {
    name: "delegation",
    cost: Cost::Linear,
    reference: "D18; Hill 1973 (effective number), Hirschman 1945 (concentration)",
    metrics: &[
        Metric {
            name: "n_delegations",
            count: Count::Things,
            summary: "spawns, and messages from the root, to another agent",
        },
        Metric { name: "delegation_entropy", count: Count::Nats, summary: "H = -Σ p ln p over delegates" },
        Metric {
            name: "delegation_evenness",
            count: Count::Ratio,
            summary: "H / ln n for n delegates; null for one",
        },
        Metric { name: "effective_agents", count: Count::Ratio, summary: "e^H" },
        Metric {
            name: "delegation_dominance",
            count: Count::Ratio,
            summary: "Σ p²; 1 if one delegate gets everything",
        },
        Metric {
            name: "work_dominance",
            count: Count::Ratio,
            summary: "Σ q² over agents; q is an agent's share of the owned events",
        },
    ],
};

impl Group for Delegation {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

#[derive(Debug, Default)]
struct Worker {
    slots: Slots,
    counts: Vec<u32>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let view = subject.view;
        let root = subject.owners.root();
        self.slots.begin();
        self.counts.clear();
        for v in (0..view.len()).filter(|&v| subject.is(v, &[EventType::Spawn, EventType::Message])) {
            let owner = subject.owners.codes()[v];
            let of_root = Some(owner) == root;
            let Some(to) = view.to.get(v) else { continue };
            let other = to != owner && !subject.owners.is_outside(view, to);
            if other && (of_root || view.event_type(v) == EventType::Spawn) {
                let at = self.slots.get(to).unwrap_or_else(|| {
                    self.slots.set(to, self.counts.len() as u32);
                    self.counts.push(0);
                    self.counts.len() as u32 - 1
                });
                self.counts[at as usize] += 1;
            }
        }
        let all = self.counts.iter().map(|&c| u64::from(c)).sum::<u64>() as f64;
        out.set(0, all);
        if self.counts.is_empty() {
            out.all_absent(1..5, Reason::RatioEmpty);
        } else {
            let shares = || self.counts.iter().map(|&count| f64::from(count) / all);
            let entropy = shares().map(|p| -p * p.ln()).sum::<f64>().max(0.0);
            out.set(1, entropy);
            if self.counts.len() > 1 {
                out.set(2, entropy / (self.counts.len() as f64).ln());
            } else {
                out.absent(2, Reason::RatioEmpty);
            }
            out.set(3, entropy.exp());
            out.set(4, shares().map(|p| p * p).sum());
        }
        let owned = subject.agents().map(|name| u64::from(name.owned)).sum::<u64>() as f64;
        let squares = subject.agents().map(|name| (f64::from(name.owned) / owned).powi(2)).sum();
        if owned == 0.0 { out.absent(5, Reason::RatioEmpty) } else { out.set(5, squares) }
    }
}
