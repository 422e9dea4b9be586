//! Credit: which unit earned the outcome.
//!
//! A method is one file. [`CreditMethod`] sees one trace and values every event, or own row, of it; [`GroupMethod`]
//! says what the rows of a trace are and compares those of all rollouts of a group. [`assign`] rolls the values up to a
//! [`Unit`](crate::schema::Unit) by the rules of docs/reference/definitions.md, D11, and appends them to [`Rows`]. Each
//! method also reports the [`terms`] of its values, which [`evidence`] returns for one trace.
//!
//! Methods are in [`methods`], a file each.

pub mod arrays;
pub mod assign;
mod columns;
pub mod context;
pub mod corpus;
pub mod decisions;
pub mod evidence;
pub mod game;
pub mod given;
mod groups;
pub mod method;
pub mod methods;
pub mod params;
pub mod reward;
pub mod rollup;
pub mod segments;
pub mod sum;
pub mod terms;

pub use assign::{Judged, Scratch, assign_judged, assign_trace, assign_values};
pub use corpus::{Request, credit};
pub use decisions::{Compared, Decisions, Rollouts, Vocabulary};
pub use evidence::{Question, own_rows, terms};
pub use given::{GivenEvents, GivenTraces, roll_up};
pub use method::{Axiom, CreditMethod, GroupMethod, Method, MethodInfo, Quantity, Scope, Values};
pub use methods::METHODS;
pub use params::{Param, ParamKind, Params, Value};
pub use rollup::{Rows, TraceRows};
pub use terms::{Credited, RowKind, Subject, Term, TermKind, Terms};

use crate::error::{Error, Result, unknown_name};

/// The method with this name; the error suggests the nearest name.
pub fn find(name: &str) -> Result<&'static Method> {
    METHODS.iter().find(|m| m.info().name == name).ok_or_else(|| {
        let names: Vec<_> = METHODS.iter().map(|m| m.info().name).collect();
        Error::Parameter(unknown_name("method", name, &names))
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
            let arguments: Vec<_> =
                method.info().params.iter().map(|p| (p.name, p.default.clone())).collect();
            assert_eq!(Params::check(method.info().params, &arguments).unwrap(), method.info().defaults());
        }
        assert!(find("flwo").err().unwrap().to_string().contains("did you mean 'flow'?"));
        assert!(find("flow").unwrap().info().unit("agnet").unwrap_err().to_string().contains("'agent'?"));
    }
}
