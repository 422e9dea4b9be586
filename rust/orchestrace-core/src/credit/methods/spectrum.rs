//! Spectrum-based blame: actions of a group's failing rollouts that passing ones lack.
//!
//! ```text
//! ef, ep: failing and passing rollouts with the class;  nf, np: without it;  F = ef + nf, P = ep + np
//! ochiai       ef / √(F (ef + ep))            tarantula    (ef/F) / (ef/F + ep/P)
//! dstar        ef^* / (ep + nf)               kulczynski2  ½ (ef/F + ef/(ef + ep))
//! ```
//!
//! The credit of an event is minus the suspiciousness of its class, so that the least credit is the first suspect, as
//! with every other method. Classes: `action` is (type, tool) of owned events, `agent` the owner, `message` the text of a
//! message. A rollout passes from R ≥ `threshold` on, to 1e-6. A group without a failing or without a passing rollout says
//! nothing: exactly 0. A perfect split, where D* divides by 0, counts as half a miss. O(N log N) for N classes of rollouts.
//! References: J. Jones et al., ICSE 2002; R. Abreu et al., PRDC 2006; W. E. Wong et al., IEEE Trans. Reliability 63, 2014.

use std::borrow::Cow;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::credit::decisions::{Compared, Decisions, Rollouts, Vocabulary, halves, key_of};
use crate::credit::method::{GroupMethod, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{Param, ParamKind, Params, Value, WEIGHT};
use crate::credit::reward::reaches;
use crate::credit::terms::{RowKind, Subject, TermKind, Terms};
use crate::graph::owner::NOBODY;
use crate::graph::units::is_message;
use crate::graph::{NO_UNIT, TraceGraph};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;
use xxhash_rust::xxh3::xxh3_128;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGroup(&Spectrum)];

/// The method `spectrum`.
pub struct Spectrum;

static INFO: MethodInfo = MethodInfo {
    name: "spectrum",
    summary: "minus the suspiciousness of what an event does, from passing and failing rollouts of the group",
    reference: "spectrum-based fault localization: Abreu et al. 2006; Wong et al. 2014",
    quantity: Quantity::Advantage,
    scope: Scope::Group,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        Param {
            name: "formula",
            kind: ParamKind::Choice(&["ochiai", "tarantula", "dstar", "kulczynski2"]),
            default: Value::Text(Cow::Borrowed("ochiai")),
            doc: "how counts become suspiciousness",
        },
        Param {
            name: "by",
            kind: ParamKind::Choice(&["action", "agent", "message"]),
            default: Value::Text(Cow::Borrowed("action")),
            doc: "what is rated: kinds of actions (type and tool), agents, or message texts",
        },
        Param {
            name: "threshold",
            kind: ParamKind::Float(f64::MIN, f64::MAX),
            default: Value::Float(0.5),
            doc: "least reward of a passing rollout, to 1e-6",
        },
        Param {
            name: "star",
            kind: ParamKind::Float(1.0, 16.0),
            default: Value::Float(2.0),
            doc: "exponent of dstar",
        },
        WEIGHT,
    ],
    tier: None,
    needs_graph: false,
};

impl GroupMethod for Spectrum {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn decide(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        corpus: &Vocabulary,
        graph: &mut TraceGraph,
        rows: &mut Decisions,
    ) -> Result<(), Reason> {
        let owners = graph.owners(view);
        rows.no_event_of(view.len());
        let first = rows.len();
        // classes of this trace, one row each; keyed, and never walked over
        let mut of_class: HashMap<u128, u32, RandomState> = HashMap::default();
        for v in 0..view.len() {
            let owner = owners.codes()[v];
            let class = match params.text("by") {
                _ if owner == NOBODY => None,
                Some("agent") => Some(key_of(&[corpus.agent(Some(owner))])),
                Some("message") if !is_message(view, owners, v) => None,
                Some("message") => {
                    let Some(text) = view.text_key(v) else {
                        // a message of unknown text is a row that cannot be compared
                        rows.row_of[v] = (rows.len() - first) as u32;
                        rows.push(0, 0, f64::NAN, 0.0);
                        continue;
                    };
                    let [a, b] = halves(xxh3_128(text.as_bytes()));
                    Some(key_of(&[a, b]))
                }
                _ => Some(key_of(&[u64::from(view.types[v]), corpus.tool(view.tool.get(v))])),
            };
            let Some(class) = class else { continue };
            let next = (rows.len() - first) as u32;
            let row = *of_class.entry(class).or_insert(next);
            if row == next {
                rows.push(class, 0, amount, 0.0);
            }
            rows.row_of[v] = row;
        }
        debug_assert!(rows.row_of.iter().all(|r| *r == NO_UNIT || (*r as usize) < rows.len() - first));
        Ok(())
    }

    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared) {
        let Runs { threshold, passing, failing } = Runs::of(group, params);
        out.begin(group.value.len());
        if failing == 0.0 || passing == 0.0 {
            out.reason.fill(Some(Reason::GroupDegenerate));
            return;
        }
        out.segments.by(group.key.iter().copied());
        let Compared { value, segments, .. } = out;
        for segment in segments.iter() {
            let fails =
                segment.iter().filter(|&&(_, row)| !reaches(group.value[row as usize], threshold)).count();
            let (ef, ep) = (fails as f64, (segment.len() - fails) as f64);
            let suspiciousness = suspiciousness(params, (ef, ep), (failing, passing));
            for &(_, row) in segment {
                // not -0 where nothing is suspected
                value[row as usize] = 0.0 - suspiciousness;
            }
        }
    }

    fn row_kind(&self, params: &Params) -> RowKind {
        match params.text("by") {
            Some("agent") => RowKind::Agent,
            Some("message") => RowKind::Text,
            _ => RowKind::Action,
        }
    }

    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms) {
        let Runs { threshold, passing, failing } = Runs::of(group, params);
        let formula = params.text("formula").unwrap_or_default();
        let rule =
            format!("amount = - {formula} of the class: e with it, n without, f failing, p passing rollouts")
                .into();
        for (part, &own) in rows.iter().enumerate() {
            out.begin(part);
            let key = group.key[own as usize];
            let with = || group.key.iter().zip(group.value).filter(|(k, _)| **k == key);
            let ef = with().filter(|(_, value)| !reaches(**value, threshold)).count() as f64;
            let ep = with().count() as f64 - ef;
            for (name, count) in [("ef", ef), ("ep", ep), ("nf", failing - ef), ("np", passing - ep)] {
                out.beside(TermKind::Count, &rule, count, name);
            }
            let silent = failing == 0.0 || passing == 0.0;
            let suspicion = if silent { 0.0 } else { suspiciousness(params, (ef, ep), (failing, passing)) };
            let whom = (Subject::Nothing, formula.to_owned());
            out.noted(TermKind::Suspicion, &rule, -1.0, suspicion, whom);
        }
    }
}

/// Rollouts of a group that pass, and that fail.
struct Runs {
    threshold: f64,
    passing: f64,
    failing: f64,
}

impl Runs {
    fn of(group: &Rollouts<'_>, params: &Params) -> Self {
        let threshold = params.float("threshold").unwrap_or(0.5);
        let passing = group.outcomes.iter().filter(|outcome| reaches(**outcome, threshold)).count() as f64;
        Self { threshold, passing, failing: group.outcomes.len() as f64 - passing }
    }
}

/// Of a class, from how many failing and passing rollouts have it, and how many there are.
fn suspiciousness(params: &Params, (ef, ep): (f64, f64), (failing, passing): (f64, f64)) -> f64 {
    match params.text("formula") {
        Some("tarantula") => (ef / failing) / (ef / failing + ep / passing),
        Some("dstar") => {
            let misses = ep + (failing - ef);
            ef.powf(params.float("star").unwrap_or(2.0)) / if misses == 0.0 { 0.5 } else { misses }
        }
        Some("kulczynski2") => 0.5 * (ef / failing + ef / (ef + ep)),
        _ => ef / (failing * (ef + ep)).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // failing rollouts 0 and 1, passing 2; class 1 in 0 and 1, class 2 in 0 and 2
        let group = Rollouts {
            outcomes: &[0.0, 0.0, 1.0],
            rollout: &[0, 0, 1, 2],
            key: &[1, 2, 1, 2],
            choice: &[0; 4],
            value: &[0.0, 0.0, 0.0, 1.0],
            other: &[0.0; 4],
        };
        for (formula, one, two) in [
            ("ochiai", 1.0, 0.5),
            ("tarantula", 1.0, 0.5 / 1.5),
            ("dstar", 8.0, 0.5),
            ("kulczynski2", 1.0, 0.5),
        ] {
            let params = Params::check(INFO.params, &[("formula", Value::Text(formula.into()))]).unwrap();
            let mut out = Compared::default();
            Spectrum.compare(&group, &params, &mut out);
            for (got, want) in out.value.iter().zip([one, two, one, two]) {
                assert!((got + want).abs() < 1e-12, "{formula}: {got} {want}");
            }
        }
        let params = INFO.defaults();
        let mut out = Compared::default();
        Spectrum.compare(&Rollouts { outcomes: &[1.0; 3], value: &[1.0; 4], ..group }, &params, &mut out);
        assert_eq!(out.reason, [Some(Reason::GroupDegenerate); 4]);
    }
}
