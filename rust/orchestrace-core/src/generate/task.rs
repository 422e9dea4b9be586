//! Facts that the rollouts of one task share: the team, the recording system, and the optional fields of that system.

use super::names;
use crate::rng::Stream;
use crate::schema::Topology;

/// How a topology behaves.
pub(super) struct Shape {
    /// Roles of spawned agents in turn, as indices of [`names::ROLES`].
    pub(super) roles: &'static [u8],
    /// Fewest and most agents of one delegation.
    pub(super) width: (u64, u64),
    /// Share of responses that call tools.
    pub(super) tools: f64,
    /// Share of responses that write to another agent.
    pub(super) talk: f64,
    /// Share of a worker's responses that spawn workers of its own, where depth allows.
    pub(super) nest: f64,
}

const fn shape(roles: &'static [u8], width: (u64, u64), tools: f64, talk: f64, nest: f64) -> Shape {
    Shape { roles, width, tools, talk, nest }
}

/// In the order of the schema's topologies.
static SHAPES: [Shape; 8] = [
    shape(&[2, 4, 5, 7], (1, 4), 0.66, 0.10, 0.0),
    shape(&[1, 2, 3], (2, 3), 0.48, 0.38, 0.0),
    shape(&[8, 8, 3], (2, 4), 0.20, 0.65, 0.0),
    shape(&[4, 7, 2], (3, 12), 0.62, 0.20, 0.03),
    shape(&[9, 5, 6, 2], (2, 5), 0.55, 0.12, 0.30),
    shape(&[5, 6], (1, 2), 0.82, 0.06, 0.0),
    shape(&[4, 5, 1, 3, 6], (1, 6), 0.50, 0.25, 0.12),
    shape(&[2, 4], (1, 3), 0.60, 0.18, 0.0),
];

/// Optional things a recording system may write.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Feature {
    Durations,
    SplitTokens,
    Models,
    Turns,
    Scores,
    DenseRewards,
    Policy,
    Subtasks,
    Hashes,
    Group,
    Faults,
    Safety,
    Drafts,
    Notes,
    Humans,
    EdgesFirst,
    /// Edges along each agent's line; others leave that order to `t`.
    Temporal,
    /// Hashes of contents; without it contents are withheld altogether.
    Contents,
}

/// Share of the tasks that have each feature, in the order of [`Feature`].
const SHARES: [f64; 18] = [
    0.60, 0.65, 0.20, 0.30, 0.50, 0.20, 0.20, 0.20, 0.15, 0.25, 0.25, 0.30, 0.20, 0.35, 0.20, 0.06, 0.30,
    0.50,
];

/// How event ids look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// `e1`, `e2`, …
    Count,
    /// Sixteen hex digits, as a span id.
    Span,
    /// `agent:line:k`.
    Line,
}

/// How agents are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// `executor_3`: role and number in the trace.
    Numbered,
    /// `executor`, `executor#2`: later ones of a name are counted.
    Repeated,
    /// Not ASCII.
    Unicode,
}

/// What the `team` reward is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// 0 or 1.
    Binary,
    /// A score in 0..1.
    Score,
    /// Nobody judged.
    Unknown,
}

/// A task.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) number: u64,
    /// Secret of the task that its hashes share.
    pub(super) key: u64,
    pub(super) topology: Topology,
    /// Whether the optional keys `system` and `topology` are written.
    pub(super) writes_system: bool,
    pub(super) writes_topology: bool,
    pub(super) system: u8,
    pub(super) model: u8,
    pub(super) ids: Ids,
    pub(super) naming: Naming,
    pub(super) outcome: Outcome,
    /// Thousandths of merit that success needs.
    pub(super) difficulty: i64,
    features: u32,
}

impl Task {
    /// The task of a number, from the seed alone.
    pub(super) fn draw(seed: u64, number: u64) -> Self {
        let mut rng = Stream::numbered(seed, "generate.task", number);
        // Eight tasks in a row have eight topologies; which comes first depends on the seed.
        let shift = Stream::new(seed, "generate.topology", b"").below(8);
        let topology = Topology::ALL[((number + shift) % 8) as usize];
        let features = (0..SHARES.len()).filter(|&f| rng.bool(SHARES[f])).fold(0, |bits, f| bits | 1 << f);
        let ids = match rng.below(20) {
            0..17 => Ids::Count,
            17..19 => Ids::Span,
            _ => Ids::Line,
        };
        let naming = match rng.below(10) {
            0..6 => Naming::Numbered,
            6..9 => Naming::Repeated,
            _ => Naming::Unicode,
        };
        let outcome = match rng.below(20) {
            0..11 => Outcome::Binary,
            11..19 => Outcome::Score,
            _ => Outcome::Unknown,
        };
        Self {
            number,
            key: rng.bits64(),
            topology,
            writes_system: rng.bool(0.9),
            writes_topology: rng.bool(0.95),
            system: rng.below(names::SYSTEMS.len() as u64) as u8,
            model: rng.below(names::MODELS.len() as u64) as u8,
            ids,
            naming,
            outcome,
            difficulty: rng.range(560, 800) as i64,
            features,
        }
    }

    /// The task of a planted corpus: one form of recording, with edges along each agent's line and nothing that
    /// the planted outcome does not account for.
    pub(super) fn planted(seed: u64, number: u64, topology: Option<Topology>) -> Self {
        let drawn = Self::draw(seed, number);
        Self {
            topology: topology.unwrap_or(drawn.topology),
            ids: Ids::Count,
            naming: Naming::Numbered,
            features: 1 << Feature::Temporal as u32,
            ..drawn
        }
    }

    /// Whether the recording system writes something.
    #[inline]
    pub(super) fn has(&self, feature: Feature) -> bool {
        self.features >> feature as u8 & 1 == 1
    }

    /// How its topology behaves.
    #[inline]
    pub(super) fn shape(&self) -> &'static Shape {
        &SHAPES[self.topology as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_tasks_have_eight_topologies() {
        let mut seen = (8..16).map(|n| Task::draw(5, n).topology as u8).collect::<Vec<_>>();
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn shapes_name_roles_that_exist() {
        for shape in &SHAPES {
            assert!(shape.roles.iter().all(|&r| usize::from(r) < names::ROLES.len()));
            assert!(shape.width.0 <= shape.width.1 && shape.tools + shape.talk <= 1.0);
        }
    }
}
