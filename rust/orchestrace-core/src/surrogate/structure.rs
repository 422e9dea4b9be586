//! The structure of a surrogate: gate model, edge weights and aggregation rule.

use super::gate::Rule;
use crate::error::{Error, Result, unknown_name};
use crate::graph::TYPE_WEIGHTS;
use crate::graph::weights::N_TYPES;
use crate::schema::EventType;

/// The largest weight that can be given.
pub const MAX_WEIGHT: f64 = 1e12;

/// The gate of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Model {
    /// Every event a noisy-or.
    #[default]
    NoisyOr,
    /// By the type of the event.
    Typed,
    /// Every event a noisy-and.
    NoisyAnd,
    /// Every event the sum of its weighted inputs, kept within 0..1.
    Linear,
    /// Every event the mean of its inputs, whatever their weights.
    Mean,
    /// Every event as good as its best input.
    Max,
    /// Every event as good as its worst input.
    Min,
    /// Every event 1 if the inputs at or above 1/2 hold more than the quorum of the weight, else 0.
    Majority,
    /// Every event 1 if anything arrives, else 0.
    Reachability,
}

impl Model {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::NoisyOr,
        Self::Typed,
        Self::NoisyAnd,
        Self::Linear,
        Self::Mean,
        Self::Max,
        Self::Min,
        Self::Majority,
        Self::Reachability,
    ];

    /// Names, as options spell them, in the order of [`Self::ALL`].
    pub const NAMES: &'static [&'static str] =
        &["noisy_or", "typed", "noisy_and", "linear", "mean", "max", "min", "majority", "reachability"];

    /// The model of a name; the error names the nearest one.
    pub fn parse(name: &str) -> Result<Self> {
        let position = Self::NAMES.iter().position(|&known| known == name);
        position
            .map(|i| Self::ALL[i])
            .ok_or_else(|| Error::Parameter(unknown_name("outcome", name, Self::NAMES)))
    }

    /// Name, as options spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The use of edge weights in the gates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Weights {
    /// As shares of the weight into an event (D15), with the weights that the graph was built with.
    #[default]
    Normalized,
    /// As they are, one for each edge type; parallel edges add up, and a probability stops at 1.
    Given([f64; N_TYPES]),
}

impl Weights {
    /// Weights of the edge types to build the graph with.
    #[must_use]
    pub fn table(&self) -> &[f64; N_TYPES] {
        match self {
            Self::Normalized => &TYPE_WEIGHTS,
            Self::Given(table) => table,
        }
    }
}

/// The rule of aggregates, if it is not the model's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// The best input.
    Best,
    /// The inputs at or above 1/2, if they hold more than the quorum of the weight.
    Majority,
    /// All inputs alike.
    Mean,
    /// All inputs, by weighted sums of log-odds.
    Confidence,
}

impl Aggregation {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Best, Self::Majority, Self::Mean, Self::Confidence];

    /// Names, as options spell them, in the order of [`Self::ALL`].
    pub const NAMES: &'static [&'static str] = &["best", "majority", "mean", "confidence"];

    /// The rule with this name; the error suggests the nearest name.
    pub fn parse(name: &str) -> Result<Self> {
        let position = Self::NAMES.iter().position(|&known| known == name);
        position
            .map(|i| Self::ALL[i])
            .ok_or_else(|| Error::Parameter(unknown_name("aggregation", name, Self::NAMES)))
    }

    /// Name, as options spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    pub(super) fn rule(self) -> Rule {
        match self {
            Self::Best => Rule::Max,
            Self::Majority => Rule::Majority,
            Self::Mean => Rule::Mean,
            Self::Confidence => Rule::Confidence,
        }
    }
}

/// Everything that a structural surrogate assumes about a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Structure {
    /// The gates.
    pub model: Model,
    /// The weights of edges.
    pub weights: Weights,
    /// Share of the weight that a majority needs more than, in 0..1.
    pub quorum: f64,
    /// Rule of events of type aggregate, in place of the model's.
    pub aggregate: Option<Aggregation>,
}

impl Default for Structure {
    fn default() -> Self {
        Self::of(Model::default())
    }
}

impl Structure {
    /// A model with normalized weights, majorities of more than half, and its own aggregates.
    #[must_use]
    pub const fn of(model: Model) -> Self {
        Self { model, weights: Weights::Normalized, quorum: 0.5, aggregate: None }
    }

    /// Whether the numbers are such that all values stay within 0..1.
    pub fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.quorum) {
            return Err(Error::Parameter(format!(
                "quorum is {}, expected a share from 0 to below 1",
                self.quorum
            )));
        }
        // parallel edges add up, and what is beyond the range of numbers would be no sum
        let bad = |w: &&f64| !(0.0..=MAX_WEIGHT).contains(*w);
        match self.weights.table().iter().find(bad) {
            Some(w) => Err(Error::Parameter(format!(
                "weights contains {w:?}, expected numbers from 0 to {MAX_WEIGHT:e}"
            ))),
            None => Ok(()),
        }
    }

    /// Gate of an event that has inputs, a veto that was cast left out.
    pub(super) fn rule(&self, kind: EventType, debate: bool) -> Rule {
        if let (EventType::Aggregate, Some(aggregation)) = (kind, self.aggregate) {
            return aggregation.rule();
        }
        match (self.model, kind) {
            (Model::Typed, EventType::SafetyEvent) | (Model::Min, _) => Rule::Min,
            (Model::Typed, EventType::ToolResult | EventType::Return) => match self.weights {
                // an input that has all the weight cannot be missed: the noisy-and is then the product
                Weights::Normalized => Rule::Product,
                Weights::Given(_) => Rule::NoisyAnd,
            },
            (Model::Typed, EventType::Aggregate) if debate => Rule::Majority,
            (Model::Typed, EventType::Aggregate) | (Model::Max, _) => Rule::Max,
            (Model::Typed | Model::NoisyOr, _) => Rule::NoisyOr,
            (Model::NoisyAnd, _) => Rule::NoisyAnd,
            (Model::Linear, _) => Rule::Linear,
            (Model::Mean, _) => Rule::Mean,
            (Model::Majority, _) => Rule::Majority,
            (Model::Reachability, _) => Rule::Any,
        }
    }
}
