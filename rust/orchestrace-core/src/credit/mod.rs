//! Credit: which unit earned the outcome.
//!
//! A method is one file. [`CreditMethod`] sees one trace and values every event, or own row, of it; [`GroupMethod`]
//! says what the rows of a trace are and compares those of all rollouts of a group. [`assign`] rolls the values up to a
//! [`Unit`](crate::schema::Unit) by the rules of ARCHITECTURE.md, D11, and appends them to [`Rows`].
//!
//! To add a method: write the file, name it below, add its entry to [`METHODS`].

pub mod agents;
pub mod arrays;
pub mod assign;
pub mod broadcast;
pub mod c3;
mod columns;
pub mod context;
pub mod corpus;
pub mod dag_gae;
pub mod decisions;
pub mod discounted;
pub mod flow;
pub mod flow_discounted;
pub mod game;
pub mod gigpo;
pub mod given;
pub mod group;
mod groups;
pub mod method;
pub mod params;
pub mod reinforce_pp;
pub mod returns;
pub mod rollup;
pub mod segments;
pub mod shape;
pub mod spectrum;
pub mod sum;
pub mod uniform;

pub use assign::{Judged, Scratch, assign_judged, assign_trace, assign_values};
pub use corpus::{Request, credit};
pub use decisions::{Compared, Decisions, Rollouts, Vocabulary};
pub use given::{GivenEvents, GivenTraces, roll_up};
pub use method::{Axiom, CreditMethod, GroupMethod, Method, MethodInfo, Quantity, Scope, Values};
pub use params::{Param, ParamKind, Params, Value};
pub use rollup::{Rows, TraceRows};

use crate::error::{Error, Result, unknown_name};
use Method::{PerGame, PerGroup, PerTrace};

/// Every method, in the order of the documentation.
pub static METHODS: &[Method] = &[
    PerTrace(&uniform::Uniform),
    PerTrace(&broadcast::Broadcast),
    PerTrace(&discounted::Discounted),
    PerTrace(&returns::RETURN_TO_GO),
    PerTrace(&returns::GAE),
    PerTrace(&returns::SEQUENTIAL_GAE),
    PerTrace(&returns::ELIGIBILITY),
    PerTrace(&dag_gae::DagGae),
    PerTrace(&flow::Flow),
    PerTrace(&flow_discounted::FlowDiscounted),
    PerGroup(&group::GRPO),
    PerGroup(&group::DR_GRPO),
    PerGroup(&group::RLOO),
    PerGroup(&group::PASS_K),
    PerGroup(&reinforce_pp::ReinforcePp),
    PerGroup(&shape::ShapeNormalised),
    PerGroup(&agents::DR_MAS),
    PerGroup(&agents::AT_GRPO),
    PerGroup(&agents::MAGRPO),
    PerGroup(&agents::MARSHAL),
    PerGroup(&gigpo::Gigpo),
    PerGroup(&c3::C3),
    PerGroup(&spectrum::Spectrum),
    PerGame(&game::difference::Difference),
    PerGame(&game::shapley::Shapley),
    PerGame(&game::banzhaf::BANZHAF),
    PerGame(&game::banzhaf::NORMALIZED_BANZHAF),
    PerGame(&game::owen::OWEN),
    PerGame(&game::owen::WINTER),
    PerGame(&game::myerson::Myerson),
    PerGame(&game::forest::PrecedenceShapley),
    PerGame(&game::forest::Permission),
    PerGroup(&game::sharp::Sharp),
];

/// The method of a name; the error names the nearest one.
pub fn find(name: &str) -> Result<&'static Method> {
    METHODS.iter().find(|m| m.info().name == name).ok_or_else(|| {
        let known: Vec<_> = METHODS.iter().map(|m| m.info().name).collect();
        Error::Parameter(unknown_name("method", name, &known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_by_name() {
        for method in METHODS {
            assert_eq!(find(method.info().name).unwrap().info().name, method.info().name);
            // every default is a value that would be accepted
            let given: Vec<_> = method.info().params.iter().map(|p| (p.name, p.default.clone())).collect();
            assert_eq!(Params::check(method.info().params, &given).unwrap(), method.info().defaults());
        }
        assert!(find("flwo").err().unwrap().to_string().contains("did you mean 'flow'?"));
        assert!(find("flow").unwrap().info().unit("agnet").unwrap_err().to_string().contains("'agent'?"));
    }
}
