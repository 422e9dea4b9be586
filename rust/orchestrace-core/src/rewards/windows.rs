//! Windows of training: the share of multi-agent traces for each `metrics.train_step`.
//!
//! ```text
//! left(s) = max(0, 1 - traces with >= 2 agents / traces)        over the traces with train_step = s
//! ```
//!
//! A rule pays one trace at a time, and a window is about the whole corpus. So windows are counted first. Counts are whole
//! numbers: the sum over the parts of a corpus is exact, in whatever order. O(|V|) of the store, up to logarithms. Source:
//! Kimi K2.5, arXiv 2602.02276, anneals its weights to 0 by a schedule that is not published; this one is ours.

use std::collections::BTreeMap;

use crate::credit::reward::measured;
use crate::error::Result;
use crate::graph::Owners;
use crate::run::Run;
use crate::schema::{Dict, MeasureKind};
use crate::store::Store;
use crate::store::view::TraceView;
use crate::tables::{Part, Rows, of_traces};

/// The traces of one step of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// `metrics.train_step`.
    pub step: f64,
    /// Traces of the step.
    pub traces: u64,
    /// Those of them in which two agents or more own an event.
    pub parallel: u64,
}

/// The windows of a corpus.
#[derive(Debug, Default)]
pub struct Windows(BTreeMap<u64, Window>);

/// Steps by their bits, of which 0 has two.
fn key(step: f64) -> u64 {
    (step + 0.0).to_bits()
}

impl Windows {
    /// Adds counts to the window of their step.
    pub fn add(&mut self, more: Window) {
        let of =
            self.0.entry(key(more.step)).or_insert(Window { step: more.step + 0.0, traces: 0, parallel: 0 });
        of.traces += more.traces;
        of.parallel += more.parallel;
    }

    /// What is left of a weight at a step; `None` where no trace has that step.
    #[must_use]
    pub fn left(&self, step: f64) -> Option<f64> {
        let of = self.0.get(&key(step)).filter(|of| of.traces > 0)?;
        Some((1.0 - of.parallel as f64 / of.traces as f64).max(0.0))
    }

    /// The windows, in a fixed order.
    pub fn list(&self) -> impl Iterator<Item = Window> {
        self.0.values().copied()
    }
}

impl Extend<Window> for Windows {
    fn extend<T: IntoIterator<Item = Window>>(&mut self, windows: T) {
        windows.into_iter().for_each(|window| self.add(window));
    }
}

impl Rows for Windows {
    fn append(&mut self, more: Self) {
        self.extend(more.list());
    }
}

impl FromIterator<Window> for Windows {
    fn from_iter<T: IntoIterator<Item = Window>>(windows: T) -> Self {
        let mut collected = Self::default();
        collected.extend(windows);
        collected
    }
}

fn window(owners: &mut Owners, view: &TraceView<'_>, train_step: u32) -> Option<Window> {
    let step = measured(view, MeasureKind::Metric, train_step)?;
    owners.compute(view);
    let agents = owners.names().iter().filter(|name| name.is_agent()).count();
    Some(Window { step, traces: 1, parallel: u64::from(agents >= 2) })
}

/// The windows of a store; a trace without a step is in none.
pub fn windows(store: &Store, run: &Run) -> Result<Windows> {
    store.expect_whole()?;
    let Some(train_step) = store.names().dict(Dict::Measure).find("train_step") else {
        return Ok(Windows::default());
    };
    let of = |owners: &mut Owners, windows: &mut Windows, part: &Part<'_>, i: usize| {
        windows.extend(window(owners, &part.trace(i), train_step));
        Ok(())
    };
    let chunks = of_traces(store, run, Default::default, of, |_, windows: Windows| Ok(windows))?;
    Ok(chunks.iter().flat_map(Windows::list).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_parts_add_up_and_zero_is_one_step() {
        let part = |step, traces, parallel| Window { step, traces, parallel };
        let first: Windows = [part(-0.0, 3, 1), part(2.0, 1, 1)].into_iter().collect();
        let other: Windows = [part(2.0, 3, 0), part(0.0, 1, 0)].into_iter().collect();
        let both = |a: &Windows, b: &Windows| a.list().chain(b.list()).collect::<Windows>();
        for all in [both(&first, &other), both(&other, &first)] {
            assert_eq!(all.list().collect::<Vec<_>>(), [part(0.0, 4, 1), part(2.0, 4, 1)]);
            assert_eq!((all.left(0.0), all.left(-0.0), all.left(1.0)), (Some(0.75), Some(0.75), None));
        }
        assert_eq!(first.left(2.0), Some(0.0));
    }
}
