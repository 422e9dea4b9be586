//! Groups of metrics on traces by hand.

use super::group::{Group, Row, TOLD};
use super::options::Options;
use super::subject::Preparation;
use crate::error::Reason;
use crate::graph::test_trace::TestTrace;
use crate::store::view::TraceView;

/// A metric's value, or why it has none.
pub(super) type Measured = Result<f64, Reason>;

/// The metrics of a group in a trace.
pub(super) fn measured(group: &dyn Group, t: &TestTrace) -> Vec<Measured> {
    measured_with(group, &t.view(), &Options::default())
}

/// The metrics of a group in a view. The worker has seen another trace, so that what that left would show.
pub(super) fn measured_with(group: &dyn Group, view: &TraceView<'_>, options: &Options) -> Vec<Measured> {
    let mut worker = group.worker(options);
    let n = group.info().metrics.len();
    let (mut values, mut reasons) = (vec![0.0; n], vec![0; n]);
    let mut other = TestTrace::artifact();
    other.trusted(false).corrupted(true).harness("other").score(0.5).subtask("other");
    for view in [&other.view(), view] {
        let mut preparation = Preparation::default();
        let subject = preparation.prepare(view, options);
        worker.measure(&subject, &mut Row::new(&mut values, &mut reasons));
    }
    let reason = |code: u8| Reason::ALL[code as usize];
    values
        .iter()
        .zip(reasons)
        .map(|(&value, code)| if code == TOLD { Ok(value) } else { Err(reason(code)) })
        .collect()
}
