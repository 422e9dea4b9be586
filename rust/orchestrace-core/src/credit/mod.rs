//! Credit: which unit earned the outcome.
//!
//! A method is one file. [`CreditMethod`] sees one trace and values every event of it; [`GroupMethod`] sees the
//! rewards of all rollouts of a group and values every rollout. [`assign`] rolls the values up to a
//! [`Unit`](crate::schema::Unit) by the rules of ARCHITECTURE.md, D11, and appends them to [`Rows`].
//!
//! To add a method: write the file, name it below, add its entry to [`METHODS`].

pub mod assign;
pub mod corpus;
pub mod discounted;
pub mod flow;
pub mod grpo;
pub mod method;
pub mod params;
pub mod rollup;
pub mod sum;
pub mod uniform;

pub use assign::{GroupCredit, Scratch, assign_group, assign_rollout, assign_trace};
pub use corpus::{Request, credit};
pub use method::{Axiom, CreditMethod, GroupMethod, Method, MethodInfo, Quantity, Values};
pub use params::{Param, ParamKind, Params, Value};
pub use rollup::{Rows, TraceRows};

use crate::error::{Error, Result, unknown_name};
use Method::{PerGroup, PerTrace};

/// Every method, in the order of the documentation.
pub static METHODS: &[Method] = &[
    PerTrace(&uniform::Uniform),
    PerTrace(&discounted::Discounted),
    PerTrace(&flow::Flow),
    PerGroup(&grpo::Grpo),
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
