//! Reward rules, one file per subject.
//!
//! To add a rule: write a `static` of [`Reward`] in the file of its subject, add its entry to [`REWARDS`].

pub mod aggregation;
pub mod collaboration;
pub mod cost;
pub mod individual;
pub mod outcome;
pub mod parallel;
pub mod presets;
pub mod process;
pub mod safety;
pub mod shaping;
pub mod split;
pub mod tool;
pub mod verifier;

use super::reward::Reward;

/// All rules, family by family.
pub static REWARDS: &[&Reward] = &[
    &outcome::OUTCOME,
    &outcome::SUCCESS,
    &individual::AGENT,
    &individual::ROLE,
    &process::PROCESS,
    &shaping::SHAPING,
    &tool::TOOL_SUCCESS,
    &tool::DISTINCT_CALLS,
    &verifier::VERIFIER,
    &verifier::DISTINCT_MESSAGES,
    &collaboration::USEFUL,
    &parallel::SPEEDUP,
    &parallel::FINISH,
    &parallel::INSTANTIATION,
    &parallel::PARL,
    &parallel::CRITICAL_STEPS,
    &cost::TOKENS,
    &cost::USD,
    &cost::LATENCY,
    &split::SPLIT,
    &aggregation::UPLIFT,
    &aggregation::UPLIFT_MEAN,
    &aggregation::CAPTURE,
    &aggregation::AGGREGATION_COVERAGE,
    &safety::CLEAN_OUTCOME,
    &safety::CLEAN_SHARE,
    &safety::CONFORMANCE,
    &presets::MGRPO_MAIN,
    &presets::MGRPO_SUB,
    &presets::MATPO,
    &presets::CONTEXT_FOLDING,
    &presets::RLINF,
    &presets::PUPPETEER,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::params::Params;
    use crate::metrics::METRICS;
    use crate::rewards::find;

    #[test]
    fn rules_say_of_themselves_what_the_engine_needs() {
        let metrics: Vec<_> = METRICS.iter().flat_map(|group| group.info().metrics).map(|m| m.name).collect();
        for rule in REWARDS {
            assert_eq!(find(rule.name).unwrap().name, rule.name);
            assert!(!rule.addends.is_empty() && !rule.summary.is_empty() && !rule.reference.is_empty());
            assert!(rule.metrics.iter().all(|name| metrics.contains(name)), "{}", rule.name);
            let arguments: Vec<_> = rule.params.iter().map(|p| (p.name, p.default.clone())).collect();
            assert_eq!(Params::check(rule.params, &arguments).unwrap(), Params::defaults(rule.params));
        }
        assert!(find("outcom").unwrap_err().to_string().contains("did you mean 'outcome'?"));
    }
}
