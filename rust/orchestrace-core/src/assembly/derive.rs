//! What is derived of the traces of a store: agents, owners and outcomes, findings about the graph. Computed once, when a
//! chunk is made.

use arrow_array::RecordBatch;

use crate::error::{Finding, FindingCode};
use crate::graph::{AgentRow, Owners, cycle_finding, outcome};
use crate::schema::{AgentKind, Dict, Reason};
use crate::store::Names;
use crate::store::ownership::Ownership;
use crate::store::view::{EdgeArrays, EventArrays, TraceView, outside};

/// Derived rows of one chunk; traces are counted from the start of the chunk.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub agents: Vec<(u32, AgentRow)>,
    pub n_agents: Vec<u32>,
    pub findings: Vec<(u32, Finding)>,
    /// None where nothing was derived.
    pub ownership: Option<Ownership>,
}

/// O(events + edges).
pub(crate) fn derive(
    events: &RecordBatch,
    edges: &RecordBatch,
    starts: &[[u32; 3]],
    numbers: &[u32],
    partial: &[bool],
    names: &Names,
) -> Derived {
    let n_events = events.num_rows();
    let events = EventArrays::new(events);
    let edges = EdgeArrays::new(edges);
    let (user, outside) = (names.dict(Dict::Agent).find("user"), outside(names));
    let mut out = Derived::default();
    let mut owners = Owners::default();
    let mut ownership = Ownership::with_capacity(n_events);
    let mut rows = Vec::new();
    for (i, window) in starts.windows(2).enumerate() {
        let mut view =
            TraceView { trace: numbers[i], user, outside, partial: partial[i], ..TraceView::default() };
        events.fill(&mut view, window[0][0] as usize, window[1][0] as usize);
        edges.fill(&mut view, window[0][1] as usize, window[1][1] as usize);
        rows.clear();
        owners.compute(&view);
        owners.agent_rows(&mut rows);
        out.n_agents.push(rows.iter().filter(|r| r.kind == AgentKind::Agent).count() as u32);
        out.agents.extend(rows.drain(..).map(|row| (i as u32, row)));
        note_oddities(&view, i as u32, &mut out.findings);
        let outcome = outcome::outcome(&view, &owners);
        ownership.push(owners.stored(outcome));
        if outcome == Err(Reason::OutcomeAmbiguous) {
            let message = "several agents could have answered, and the recording does not say which one the human heard";
            let finding =
                Finding { code: FindingCode::OutcomeAmbiguous, count: 1, seq: None, message: message.into() };
            out.findings.push((i as u32, finding));
        }
    }
    ownership.shrink();
    out.ownership = Some(ownership);
    out
}

fn note_oddities(view: &TraceView<'_>, trace: u32, findings: &mut Vec<(u32, Finding)>) {
    let id = |seq: u32| view.id.get(seq as usize).unwrap_or_default();
    let mut reversed = 0;
    let mut first = None;
    let mut forward = true;
    for (&src, &dst) in view.src.iter().zip(view.dst) {
        forward &= src < dst;
        if view.t[src as usize] > view.t[dst as usize] {
            reversed += 1;
            first = first.or(Some((src, dst)));
        }
    }
    if let Some((src, dst)) = first {
        let message = format!(
            "an edge goes back in time, from '{}' at {} to '{}' at {}",
            id(src),
            view.t[src as usize],
            id(dst),
            view.t[dst as usize]
        );
        findings.push((
            trace,
            Finding { code: FindingCode::TimeReversed, count: reversed, seq: Some(src), message },
        ));
    }
    // Edges that all lead to later places in the document cannot close a cycle.
    if !forward && let Some(finding) = cycle_finding(view) {
        findings.push((trace, finding));
    }
}
