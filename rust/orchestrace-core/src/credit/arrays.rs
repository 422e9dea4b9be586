//! Advantages on plain arrays of trainers: rewards, group codes and critics in; one number per row out.
//!
//! The rules are those of `group.rs` and `returns.rs`; here nothing stands between them and the numbers.

mod groups;
mod sequences;

pub use groups::{Relative, Rows, relative};
pub use sequences::{Sequences, generalized};

use crate::error::{Error, Result};

/// Rows to a worker where they are independent.
const ROWS_AT_A_TIME: usize = 1 << 16;

fn same_length(name: &str, n: usize, other: &str, of_other: usize) -> Result<()> {
    if n == of_other {
        return Ok(());
    }
    Err(Error::Parameter(format!("{name} has {n} rows and {other} {of_other}, expected equal numbers")))
}

#[cfg(test)]
mod tests {
    use crate::run::Run;

    pub(super) fn on<T: Send>(threads: usize, f: impl FnOnce(&Run) -> T + Send) -> T {
        let run = Run::new(Some(threads)).unwrap();
        run.pool().install(|| f(&run))
    }

    pub(super) fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() <= 1e-12 * w.abs().max(1.0), "{got:?} {want:?}");
        }
    }
}
