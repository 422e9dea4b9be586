//! Weights of edges from the gates of the structural surrogate.

use crate::graph::CsrGraph;
use crate::surrogate::Surrogate;

/// Nodes and weights of the Gauss-Legendre rule of eight points on [0, 1].
const NODES: [(f64, f64); 8] = [
    (0.019_855_071_751_231_912, 0.050_614_268_145_188_13),
    (0.101_666_761_293_186_64, 0.111_190_517_226_687_21),
    (0.237_233_795_041_835_5, 0.156_853_322_938_943_64),
    (0.408_282_678_752_175_1, 0.181_341_891_689_180_83),
    (0.591_717_321_247_825, 0.181_341_891_689_180_83),
    (0.762_766_204_958_164_5, 0.156_853_322_938_943_64),
    (0.898_333_238_706_813_4, 0.111_190_517_226_687_21),
    (0.980_144_928_248_768_1, 0.050_614_268_145_188_13),
];

/// z = w x of every edge on a way to the outcome, beside the edges of `graph`; 0 elsewhere. `surrogate` has
/// observed the trace.
pub(super) fn contributions(graph: &CsrGraph, surrogate: &Surrogate, out: &mut Vec<f64>) {
    out.clear();
    out.resize(graph.n_edges(), 0.0);
    for gate in surrogate.inputs() {
        let edges = &mut out[graph.edges_into(gate.row)];
        edges.iter_mut().zip(gate.contributions()).for_each(|(edge, z)| *edge = z);
    }
}

/// The Shapley value of every edge in the noisy-or gate that it leads to, beside the edges of `graph`.
///
/// The game of a gate is v(S) = 1 - Π over S of (1 - z), whose multilinear extension has the derivative
/// `z_u` Π (1 - t z) over the others; its integral along the diagonal is the Shapley value (Owen 1972). The integrand
/// is a polynomial of one degree less than there are inputs, so eight nodes are exact up to sixteen inputs. Beyond,
/// its 16th derivative is below (Σz)^16 ≤ (ln 4)^16 since w ≤ a ln 4, which makes the error less than 1e-20.
pub(super) fn shapley_values(graph: &CsrGraph, surrogate: &Surrogate, out: &mut Vec<f64>) {
    contributions(graph, surrogate, out);
    for gate in surrogate.inputs() {
        noisy_or_shapley(&mut out[graph.edges_into(gate.row)]);
    }
}

/// Replaces the contributions of a gate's inputs by their Shapley values. O(inputs).
fn noisy_or_shapley(z: &mut [f64]) {
    // one input has all that there is
    if z.len() < 2 {
        return;
    }
    let products = NODES.map(|(t, weight)| weight * z.iter().fold(1.0, |p, z| p * (1.0 - t * z)));
    for z in z {
        *z *= NODES.iter().zip(products).map(|((t, _), product)| product / (1.0 - t * *z)).sum::<f64>();
    }
}

#[cfg(test)]
mod tests {
    use super::noisy_or_shapley;
    use proptest::prelude::*;

    /// The definition, over all 2^k coalitions.
    fn brute_force(z: &[f64]) -> Vec<f64> {
        let k = z.len();
        let value =
            |set: usize| 1.0 - (0..k).filter(|i| set >> i & 1 == 1).map(|i| 1.0 - z[i]).product::<f64>();
        let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
        let marginal = |i: usize, set: usize| {
            let size = set.count_ones() as usize;
            factorial(size) * factorial(k - size - 1) / factorial(k) * (value(set | 1 << i) - value(set))
        };
        (0..k)
            .map(|i| (0..1 << k).filter(|set| set >> i & 1 == 0).map(|set| marginal(i, set)).sum())
            .collect()
    }

    #[test]
    fn golden() {
        let mut z = [0.5, 0.4, 0.2];
        noisy_or_shapley(&mut z);
        for (got, want) in z.iter().zip([0.363_333, 0.273_333, 0.123_333]) {
            assert!((got - want).abs() < 1e-6, "{z:?}");
        }
    }

    #[test]
    fn wide_gates_stay_exact() {
        // n equal inputs share what all of them make, whatever n
        for n in [17_usize, 100, 5000] {
            let w = 1.0 - 0.25_f64.powf(1.0 / n as f64);
            let mut z = vec![w; n];
            noisy_or_shapley(&mut z);
            for value in z {
                assert!((value * n as f64 - 0.75).abs() < 1e-13, "{n} {value}");
            }
        }
    }

    proptest! {
        #[test]
        fn equals_brute_force(z in prop::collection::vec(0.0..0.75_f64, 1..9)) {
            let mut got = z.clone();
            noisy_or_shapley(&mut got);
            for (got, want) in got.iter().zip(brute_force(&z)) {
                prop_assert!((got - want).abs() < 1e-14, "{} {}", got, want);
            }
        }
    }
}
