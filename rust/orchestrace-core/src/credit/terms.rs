//! Terms of an amount, reported by the method itself.
//!
//! Terms with a weight sum to the amount: Σ weight × amount. Terms without one stand beside: the mean, the divisor, counts.

use std::borrow::Cow;
use std::sync::Arc;

use super::method::Values;
use super::params::Params;
use super::segments::{Scale, center};
use crate::store::view::TraceView;

/// The kind of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermKind {
    /// The reward of the trace.
    Outcome,
    /// What came over an edge of the graph.
    Edge,
    /// The field `reward`.
    Reward,
    /// An estimate of the critic.
    Critic,
    /// The amount of what comes next.
    Successor,
    /// A number of a turn.
    Turn,
    /// A number of a rollout.
    Rollout,
    /// The mean outcome of an alternative.
    Sibling,
    /// How suspicious a class of events is.
    Suspicion,
    /// A mean that is subtracted.
    Mean,
    /// What is divided by.
    Deviation,
    /// How many there are.
    Count,
}

impl TermKind {
    /// The word of the documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TermKind::Outcome => "outcome",
            TermKind::Edge => "edge",
            TermKind::Reward => "reward",
            TermKind::Critic => "critic",
            TermKind::Successor => "successor",
            TermKind::Turn => "turn",
            TermKind::Rollout => "rollout",
            TermKind::Sibling => "sibling",
            TermKind::Suspicion => "suspicion",
            TermKind::Mean => "mean",
            TermKind::Deviation => "deviation",
            TermKind::Count => "count",
        }
    }
}

/// The kind of a method's own row, which names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// One event.
    Event,
    /// A turn.
    Turn,
    /// The whole trace.
    Trace,
    /// The events of an owner.
    Agent,
    /// The owned events of one type and tool.
    Action,
    /// The messages of one text.
    Text,
}

/// The subject of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subject {
    /// Nobody in particular.
    #[default]
    Nothing,
    /// What comes from the second of two events of the trace to the first.
    Edge(u32, u32),
    /// An own row of the trace, placed at its first event.
    OwnRow(u32),
    /// A rollout of the group, by its place.
    Rollout(u32),
    /// A row of the group, by its place.
    Row(u32),
    /// A row of the group, placed at its first event if that is in the trace.
    PlacedRow(u32),
}

/// A finding about an amount.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Which of the amounts that were asked for.
    pub part: u32,
    /// What it is.
    pub kind: TermKind,
    /// The formula that it is a part of.
    pub rule: Arc<str>,
    /// By what its amount counts; none for what stands beside.
    pub weight: Option<f64>,
    /// The number.
    pub amount: f64,
    /// Whom it is about.
    pub subject: Subject,
    /// What follows the name of the subject.
    pub note: Cow<'static, str>,
}

/// The terms found so far.
#[derive(Debug, Default)]
pub struct Terms {
    list: Vec<Term>,
    part: u32,
}

impl Terms {
    /// What follows is about another of the amounts that were asked for.
    pub fn begin(&mut self, part: usize) {
        self.part = part as u32;
    }

    /// Appends a term.
    pub fn push(&mut self, kind: TermKind, rule: &Arc<str>, weight: f64, amount: f64, subject: Subject) {
        self.add(kind, rule, Some(weight), amount, (subject, Cow::Borrowed("")));
    }

    /// Appends a term whose subject's name goes on.
    pub fn noted(
        &mut self,
        kind: TermKind,
        rule: &Arc<str>,
        weight: f64,
        amount: f64,
        whom: (Subject, String),
    ) {
        self.add(kind, rule, Some(weight), amount, (whom.0, whom.1.into()));
    }

    /// Appends what stands beside the terms.
    pub fn beside(
        &mut self,
        kind: TermKind,
        rule: &Arc<str>,
        amount: f64,
        note: impl Into<Cow<'static, str>>,
    ) {
        self.add(kind, rule, None, amount, (Subject::Nothing, note.into()));
    }

    fn add(
        &mut self,
        kind: TermKind,
        rule: &Arc<str>,
        weight: Option<f64>,
        amount: f64,
        whom: (Subject, Cow<'static, str>),
    ) {
        let (subject, note) = whom;
        self.list.push(Term { part: self.part, kind, rule: Arc::clone(rule), weight, amount, subject, note });
    }

    /// The terms so far.
    #[must_use]
    pub fn list(&self) -> &[Term] {
        &self.list
    }

    /// The terms.
    #[must_use]
    pub fn into_list(self) -> Vec<Term> {
        self.list
    }
}

/// A question about one trace.
#[derive(Debug, Clone, Copy)]
pub struct Credited<'a> {
    /// The trace.
    pub view: &'a TraceView<'a>,
    /// What it is paid.
    pub amount: f64,
    /// Parameters of the method.
    pub params: &'a Params,
    /// What the method gave to its rows.
    pub values: &'a Values,
    /// The rows that are asked about.
    pub rows: &'a [u32],
}

/// One of some numbers relative to all of them: `factor` × (own - mean) / divisor.
#[derive(Debug, Clone)]
pub struct Relative<'a> {
    /// The numbers.
    pub numbers: &'a [f64],
    /// Place of the one.
    pub place: usize,
    /// What the divisor is.
    pub scale: Scale,
    /// What the whole is multiplied by.
    pub factor: f64,
    /// What the numbers are.
    pub kind: TermKind,
    /// The formula.
    pub rule: Arc<str>,
}

impl Relative<'_> {
    /// Appends a term for each of the numbers, whose subjects `subject` says, with mean and divisor beside them.
    pub fn explain(&self, subject: impl Fn(usize) -> Subject, out: &mut Terms) {
        let n = self.numbers.len() as f64;
        let (mean, divisor) = center(self.numbers, self.scale);
        for (at, &amount) in self.numbers.iter().enumerate() {
            let is_own = f64::from(u8::from(at == self.place));
            let weight = divisor.map_or(0.0, |divisor| self.factor * (is_own - 1.0 / n) / divisor);
            out.push(self.kind, &self.rule, weight, amount, subject(at));
        }
        out.beside(TermKind::Mean, &self.rule, mean, format!("of {}", self.numbers.len()));
        if let Some(divisor) = divisor.filter(|divisor| *divisor != 1.0) {
            out.beside(TermKind::Deviation, &self.rule, divisor, "divisor");
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// What the terms of each part sum to.
    pub(crate) fn sums(terms: &Terms, parts: usize) -> Vec<f64> {
        let mut sums = vec![0.0; parts];
        for term in terms.list() {
            sums[term.part as usize] += term.weight.unwrap_or_default() * term.amount;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::segments::standardize;
    use super::testing::sums;
    use super::*;

    #[test]
    fn relative_terms_sum_to_what_the_kernel_gives() {
        let numbers = [1.0, 0.25, -3.0, 7.5];
        for scale in
            [Scale::None, Scale::Factor(4.0 / 3.0), Scale::Deviation(1, 1e-6), Scale::Whitened(1, 1e-8)]
        {
            let mut wanted = Vec::new();
            assert!(!standardize(&numbers, scale, &mut wanted));
            let mut terms = Terms::default();
            for own_row in 0..numbers.len() {
                terms.begin(own_row);
                let (kind, rule) = (TermKind::Rollout, "".into());
                let relative = Relative { numbers: &numbers, place: own_row, scale, factor: 2.0, kind, rule };
                relative.explain(|at| Subject::Rollout(at as u32), &mut terms);
            }
            for (got, want) in sums(&terms, 4).iter().zip(&wanted) {
                assert!((got - 2.0 * want).abs() < 1e-12, "{scale:?} {got} {want}");
            }
            let mean = terms.list().iter().find(|term| term.kind == TermKind::Mean).unwrap();
            assert_eq!((mean.weight, mean.amount, &*mean.note), (None, 1.4375, "of 4"));
            let divisors = terms.list().iter().filter(|term| term.kind == TermKind::Deviation).count();
            assert_eq!(divisors, if scale == Scale::None { 0 } else { 4 });
        }
    }

    #[test]
    fn numbers_that_say_nothing_have_weight_zero() {
        let mut terms = Terms::default();
        let (numbers, kind) = ([0.5; 3], TermKind::Turn);
        let scale = Scale::Deviation(1, 1e-6);
        Relative { numbers: &numbers, place: 1, scale, factor: 1.0, kind, rule: "".into() }
            .explain(|_| Subject::Nothing, &mut terms);
        let weights: Vec<_> = terms.list().iter().map(|term| term.weight).collect();
        assert_eq!(weights, [Some(0.0), Some(0.0), Some(0.0), None]);
    }
}
