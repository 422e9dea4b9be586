//! Rewards that belong to an agent or a role, compared with its own in the other rollouts of the group.
//!
//! ```text
//! R_a = Σ reward of the events that a owns;  rows: agents, or roles;  compared within (group, agent) or (group, role)
//! ```
//!
//! An agent of which no event has a `reward` has no row. A segment of one, or of equal rewards, gives exactly 0. It is
//! how rLLM and prime-rl train teams whose agents are paid apart: a group is a task and the name of a trajectory.
//! O(|V|) a trace, O(N log N) for N rows. Definition: docs/reference/definitions.md, D13.

use std::borrow::Cow;

use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary, key_of};
use crate::credit::params::{Param, ParamKind, Params, Value};
use crate::credit::segments::{Scale, standardize};
use crate::credit::terms::{Relative, Subject, TermKind, Terms};
use crate::graph::{NO_UNIT, TraceGraph};
use crate::store::view::TraceView;

/// Whose reward a rule over groups compares.
pub(super) const REWARD_OF: Param = Param {
    name: "reward_of",
    kind: ParamKind::Choice(&["run", "agent", "role"]),
    default: Value::Text(Cow::Borrowed("run")),
    doc: "what is compared: the reward of the run, or the field `reward` of each agent or role with its own in the group",
};

/// Who is paid apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Whose {
    Agent,
    Role,
}

/// Who is paid apart; none where the run is paid.
pub(super) fn whose(params: &Params) -> Option<Whose> {
    match params.text("reward_of") {
        Some("agent") => Some(Whose::Agent),
        Some("role") => Some(Whose::Role),
        _ => None,
    }
}

/// A row for each agent or role, with what its events are paid.
pub(super) fn decide(
    view: &TraceView<'_>,
    whose: Whose,
    corpus: &Vocabulary,
    graph: &mut TraceGraph,
    rows: &mut Decisions,
) {
    let owners = graph.owners(view);
    let mut keys: Vec<u64> = Vec::new();
    let mut row_of_name = vec![NO_UNIT; owners.names().len()];
    for (name, row) in owners.names().iter().zip(&mut row_of_name).filter(|(name, _)| name.is_agent()) {
        let (key, known) = match whose {
            Whose::Agent => (corpus.agent(Some(name.code)), None),
            Whose::Role => {
                let Some(role) = name.role() else { continue };
                let key = corpus.role(Some(role));
                (key, keys.iter().position(|known| *known == key))
            }
        };
        *row = known.unwrap_or(keys.len()) as u32;
        if known.is_none() {
            keys.push(key);
        }
    }
    rows.row_of.clear();
    let row_of = |at: &u32| row_of_name.get(*at as usize).copied().unwrap_or(NO_UNIT);
    rows.row_of.extend(owners.indices().iter().map(row_of));
    let mut paid: Vec<Option<f64>> = vec![None; keys.len()];
    for (v, &row) in rows.row_of.iter().enumerate() {
        if let (Some(paid), Some(reward)) = (paid.get_mut(row as usize), view.reward.get(v)) {
            *paid = Some(paid.unwrap_or(0.0) + reward);
        }
    }
    for (key, paid) in keys.into_iter().zip(paid) {
        rows.push(key_of(&[key]), 0, paid.unwrap_or(f64::NAN), 0.0);
    }
}

/// Compares the rows of each key; `lone` is what released code divides a single value by, if it is asked for.
pub(super) fn compare(
    group: &Rollouts<'_>,
    scale: impl Fn(usize) -> Scale,
    lone: Option<f64>,
    out: &mut Compared,
) {
    out.by_key(group, |_, rewards, values| match (lone, &rewards[..]) {
        (Some(divisor), &[single]) => {
            values.push(single / divisor);
            false
        }
        _ => standardize(rewards, scale(rewards.len()), values),
    });
}

/// What values of such rows are made of.
pub(super) fn terms(
    group: &Rollouts<'_>,
    scale: impl Fn(usize) -> Scale,
    lone: Option<f64>,
    rows: &[u32],
    out: &mut Terms,
) {
    for (part, &own_row) in rows.iter().enumerate() {
        out.begin(part);
        let own_row = own_row as usize;
        let segment: Vec<usize> =
            (0..group.key.len()).filter(|&row| group.key[row] == group.key[own_row]).collect();
        let whom = |at: usize| Subject::PlacedRow(segment[at] as u32);
        if let (Some(divisor), 1) = (lone, segment.len()) {
            let rule = "amount = R of its own, since released code leaves a single value unchanged".into();
            out.push(TermKind::Rollout, &rule, 1.0 / divisor, group.value[own_row], whom(0));
            continue;
        }
        let numbers: Vec<f64> = segment.iter().map(|&row| group.value[row]).collect();
        let scale = scale(numbers.len());
        let by = if let Scale::Deviation(..) = scale { " / (deviation + ε)" } else { "" };
        let rule = match scale {
            Scale::Factor(_) => "amount = R - mean of the others, R its own reward in the group".into(),
            _ => format!("amount = (R - mean){by}, R its own reward in the group").into(),
        };
        let place = segment.iter().position(|&row| row == own_row).unwrap_or_default();
        Relative { numbers: &numbers, place, scale, factor: 1.0, kind: TermKind::Rollout, rule }
            .explain(whom, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::schema::EventType::Message;
    use crate::store::view::Nullable;

    #[test]
    fn rows_are_what_agents_and_roles_are_paid() {
        let mut t = TestTrace::default();
        t.event(Message, "a").role("executor").event(Message, "b").role("executor").event(Message, "a");
        t.event(Message, "c").event(Message, "user");
        let reward = [1.0, 0.5, 0.25, f64::NAN, 9.0];
        let nulls = arrow_buffer::NullBuffer::from(vec![true, true, true, false, true]);
        let view = TraceView { reward: Nullable::new(&reward, Some(&nulls), 0), ..t.view() };
        let mut graph = TraceGraph::default();
        let mut of = |whose| {
            graph.begin();
            let mut rows = Decisions::default();
            decide(&view, whose, &Vocabulary::default(), &mut graph, &mut rows);
            let value: Vec<_> = rows.value.iter().map(|x| (!x.is_nan()).then_some(*x)).collect();
            (value, rows.row_of)
        };
        assert_eq!(of(Whose::Agent), (vec![Some(1.25), Some(0.5), None], vec![0, 1, 0, 2, NO_UNIT]));
        assert_eq!(of(Whose::Role), (vec![Some(1.75)], vec![0, 0, 0, NO_UNIT, NO_UNIT]));
    }
}
