//! The backward pass from the outcome, shared by all flows. O(|V| + |E|).

use crate::graph::{CsrGraph, Order, Outcome};

/// What an event divides among its predecessors by.
#[derive(Debug, Clone, Copy)]
pub(in crate::credit) enum Weights<'a> {
    /// Equally.
    Uniform,
    /// By these, one for each edge of the graph in its order.
    Edges(&'a [f64]),
    /// By exp(-gap/τ) of these times.
    TimeDecay(&'a [f64], f64),
}

impl Weights<'_> {
    /// Those of the edges into `v`, beside its predecessors.
    pub(super) fn into_event(self, graph: &CsrGraph, v: usize) -> Vec<f64> {
        let rows = graph.predecessors_of(v);
        match self {
            Weights::Uniform => vec![1.0; rows.len()],
            Weights::Edges(edges) => edges[graph.edges_into(v)].to_vec(),
            Weights::TimeDecay(t, tau) => time_decay(t, tau, v, rows).collect(),
        }
    }
}

/// How the flow goes.
#[derive(Debug, Clone, Copy)]
pub(in crate::credit) struct Pass<'a> {
    pub(in crate::credit) graph: &'a CsrGraph,
    pub(in crate::credit) order: Order<'a>,
    pub(in crate::credit) outcome: Outcome,
    pub(in crate::credit) amount: f64,
    /// Part of what it receives that an event with predecessors keeps.
    pub(in crate::credit) retention: f64,
    /// What is added to the sum of the weights into an event; it keeps what falls on this.
    pub(in crate::credit) epsilon: f64,
    /// What is left of an amount after each edge.
    pub(in crate::credit) gamma: f64,
}

impl<'a> Pass<'a> {
    /// Fills `credit` with what each event keeps or, unless `KEPT`, with what it receives.
    pub(in crate::credit) fn run<const KEPT: bool>(self, weights: Weights<'a>, credit: &mut Vec<f64>) {
        credit.clear();
        match self.outcome {
            Outcome::Event(y) => {
                credit.resize(self.graph.len(), 0.0);
                credit[y as usize] = self.amount;
            }
            Outcome::VirtualSink => self.pay_sinks(credit),
        }
        match weights {
            Weights::Uniform => {
                self.ordered::<KEPT, _>(|_, rows| std::iter::repeat_n(1.0, rows.len()), credit);
            }
            Weights::Edges(edges) => {
                let graph = self.graph;
                self.ordered::<KEPT, _>(|v, _| edges[graph.edges_into(v)].iter().copied(), credit);
            }
            Weights::TimeDecay(t, tau) => {
                self.ordered::<KEPT, _>(|v, rows| time_decay(t, tau, v, rows), credit);
            }
        }
    }

    /// Without a real outcome all events that lead nowhere get equal parts: a virtual sink keeps nothing, and no
    /// recorded edge leads to it.
    fn pay_sinks(self, credit: &mut Vec<f64>) {
        credit.resize(self.graph.len(), 1.0);
        for v in 0..self.graph.len() {
            for &u in self.graph.predecessors_of(v) {
                credit[u as usize] = 0.0;
            }
        }
        let sinks: f64 = credit.iter().sum();
        let each = self.amount / sinks;
        for credit in credit.iter_mut() {
            *credit *= each;
        }
    }

    fn ordered<const KEPT: bool, W: Iterator<Item = f64> + Clone>(
        self,
        weights: impl Fn(usize, &'a [u32]) -> W,
        credit: &mut [f64],
    ) {
        match self.order {
            Order::Document(n) => self.sweep::<KEPT, W>((0..n).rev(), weights, credit),
            Order::Listed(rows) => {
                self.sweep::<KEPT, W>(rows.iter().rev().map(|&v| v as usize), weights, credit);
            }
        }
    }

    /// Part of what it receives that an event keeps, into which edges of this weight lead.
    #[inline]
    pub(super) fn retained(&self, total: f64) -> f64 {
        let withheld = self.epsilon / (total + self.epsilon);
        self.retention + (1.0 - self.retention) * withheld
    }

    /// Part of what it receives that an event sends for a unit of weight.
    #[inline]
    pub(super) fn sent(&self, total: f64) -> f64 {
        self.gamma * (1.0 - self.retention) / (total + self.epsilon)
    }

    /// `weights` gives the weights of the edges into an event, beside its predecessors.
    fn sweep<const KEPT: bool, W: Iterator<Item = f64> + Clone>(
        self,
        reversed: impl Iterator<Item = usize>,
        weights: impl Fn(usize, &'a [u32]) -> W,
        credit: &mut [f64],
    ) {
        for v in reversed {
            let received = credit[v];
            let predecessors = self.graph.predecessors_of(v);
            // A source keeps everything, and nothing is left of nothing.
            if received == 0.0 || predecessors.is_empty() {
                continue;
            }
            let weights = weights(v, predecessors);
            let total: f64 = weights.clone().sum();
            // Where no weight is left there is no other way in, and the event is a source.
            if total > 0.0 {
                if KEPT {
                    credit[v] = received * self.retained(total);
                }
                let per_weight = received * self.sent(total);
                for (&u, weight) in predecessors.iter().zip(weights) {
                    credit[u as usize] += per_weight * weight;
                }
            }
        }
    }
}

/// exp(-gap/τ) of every edge into `v`, relative to the nearest predecessor: normalizing cancels the common factor,
/// and however small τ is, not all weights of an event underflow.
fn time_decay<'a>(
    t: &'a [f64],
    tau: f64,
    v: usize,
    rows: &'a [u32],
) -> impl Iterator<Item = f64> + Clone + 'a {
    let gaps = rows.iter().map(move |&u| (t[v] - t[u as usize]).max(0.0));
    let nearest = gaps.clone().fold(f64::INFINITY, f64::min);
    gaps.map(move |gap| ((nearest - gap) / tau).exp())
}
