//! Gates: the value of an event from its inputs.

/// How a gate combines its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// 1: an event without inputs.
    Source,
    /// The one input there is.
    Pass,
    /// (1 - Π(1 - w x)) / scale.
    NoisyOr,
    /// (Π(1 - w (1 - x)) - floor) / scale.
    NoisyAnd,
    /// Π x.
    Product,
    /// Σ w x / scale, at most 1.
    Linear,
    /// Linear with equal weights.
    Mean,
    /// The greatest x.
    Max,
    /// The least x.
    Min,
    /// 1 if the weights of x ≥ 1/2 sum to more than scale, else 0.
    Majority,
    /// 1 if some x is above 0, else 0.
    Any,
    /// The log-odds are Σ w ln(x/(1-x)): certain inputs decide, and 1/2 where they contradict each other.
    Confidence,
    /// 0: a veto that was cast.
    Never,
}

/// A gate with its inputs.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a> {
    /// The event; `None` for the virtual sink, which is always there.
    pub row: Option<u32>,
    /// How it combines its inputs.
    pub rule: Rule,
    /// What the rule divides by, or the weight that a majority must pass.
    pub scale: f64,
    /// What a noisy-and with normalized weights makes of inputs of 0, before it is scaled.
    pub floor: f64,
    /// Positions of the gates that are its inputs, all before it.
    pub inputs: &'a [u32],
    /// Weights beside `inputs`, as the rule takes them.
    pub weights: &'a [f64],
}

impl Gate<'_> {
    /// Its value on `L` sets of inputs side by side; `values` has those of the gates before it.
    #[inline]
    #[must_use]
    pub fn evaluate<const L: usize>(&self, values: &[[f64; L]]) -> [f64; L] {
        let inputs = self.inputs.iter().map(|&u| &values[u as usize]);
        let fold = |start: f64, f: fn(f64, f64) -> f64| {
            let mut value = [start; L];
            for x in inputs.clone() {
                value = std::array::from_fn(|lane| f(value[lane], x[lane]));
            }
            value
        };
        let weighted = |start: f64, f: fn(f64, f64, f64) -> f64| {
            let mut value = [start; L];
            for (x, &w) in inputs.clone().zip(self.weights) {
                value = std::array::from_fn(|lane| f(value[lane], x[lane], w));
            }
            value
        };
        match self.rule {
            Rule::Source => [1.0; L],
            Rule::Never => [0.0; L],
            Rule::Pass | Rule::Product => fold(1.0, |p, x| p * x),
            Rule::Max => fold(0.0, f64::max),
            Rule::Min => fold(1.0, f64::min),
            Rule::Any => fold(0.0, |any, x| if x > 0.0 { 1.0 } else { any }),
            Rule::NoisyOr => {
                weighted(1.0, |fails, x, w| fails * (1.0 - w * x)).map(|fails| (1.0 - fails) / self.scale)
            }
            Rule::NoisyAnd => weighted(1.0, |holds, x, w| holds * (1.0 - w * (1.0 - x)))
                .map(|holds| (holds - self.floor).max(0.0) / self.scale),
            Rule::Linear | Rule::Mean => {
                weighted(0.0, |sum, x, w| sum + w * x).map(|sum| (sum / self.scale).min(1.0))
            }
            Rule::Majority => weighted(0.0, |votes, x, w| votes + if x >= 0.5 { w } else { 0.0 })
                .map(|votes| if votes > self.scale { 1.0 } else { 0.0 }),
            Rule::Confidence => self.confidence(values),
        }
    }

    /// 1 / (1 + e^-logit). The logarithms of x and of 1 - x are summed apart, so that certainty is met exactly.
    fn confidence<const L: usize>(&self, values: &[[f64; L]]) -> [f64; L] {
        std::array::from_fn(|lane| {
            let (mut for_it, mut against) = (0.0, 0.0);
            // what has no weight has no say, however certain it is
            for (&u, &w) in self.inputs.iter().zip(self.weights).filter(|&(_, &w)| w > 0.0) {
                let x = values[u as usize][lane];
                for_it += w * x.ln();
                against += w * (-x).ln_1p();
            }
            if for_it == against { 0.5 } else { 1.0 / (1.0 + (against - for_it).exp()) }
        })
    }
}
