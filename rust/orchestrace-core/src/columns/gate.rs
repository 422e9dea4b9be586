//! Limits of stored values, the same for every writer. [`TraceWriter`] applies them for importers, `from_arrow` for
//! external tables, the native reader for its documents; each describes a value's place in its own words.
//!
//! [`TraceWriter`]: super::writer::TraceWriter

use crate::schema::{EventField, MeasureKind};

/// What a number has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Neither infinite nor NaN.
    Finite,
    /// That, and at least 0.
    NotNegative,
}

impl Bound {
    /// Of an optional field of an event that is a number.
    #[inline]
    pub(crate) fn of_field(field: EventField) -> Self {
        match field {
            EventField::T | EventField::DurationS | EventField::CostUsd => Self::NotNegative,
            _ => Self::Finite,
        }
    }

    /// Of a reward, cost or metric.
    #[inline]
    pub(crate) fn of_measure(kind: MeasureKind) -> Self {
        match kind {
            MeasureKind::Cost => Self::NotNegative,
            MeasureKind::Reward | MeasureKind::Metric => Self::Finite,
        }
    }

    /// Whether the value is within it.
    #[inline]
    pub(crate) fn holds(self, value: f64) -> bool {
        value.is_finite() && (self == Self::Finite || value >= 0.0)
    }

    /// What was found and expected.
    #[cold]
    pub(crate) fn refusal(self, value: f64) -> String {
        match self {
            Self::NotNegative if value.is_finite() => format!("is {value}, expected at least 0"),
            _ => format!("is {value}, expected a finite number"),
        }
    }
}

/// The first element of a list that is not finite.
#[inline]
pub(crate) fn odd_element(values: &[f64]) -> Option<usize> {
    values.iter().position(|value| !value.is_finite())
}

/// Whether a key may be a member of an event beside its columns: `extras` come back as they were written only if no
/// reader takes them for something else.
pub(crate) fn may_be_extra(key: &str) -> bool {
    key != "x_trace" && EventField::parse(key).is_none() && EventField::formerly(key).is_none()
}
