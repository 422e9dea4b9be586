//! Size mixes: numbers of events and agents per trace.

use crate::error::{Error, Result, unknown_name};
use crate::rng::Stream;

/// Rollouts per task; they share the task's team and differ in the run.
pub(super) const ROLLOUTS: u64 = 8;
/// No trace is longer, so that one trace is never a burden for memory.
const LONGEST: u64 = 20_000;
const MOST_AGENTS: u64 = 300;
/// Tasks over which the mixed preset spreads its shares exactly.
const WINDOW: u64 = 64;

/// A mix of trace sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Mostly small, some long, few of deployed size.
    Mixed,
    /// 10 to 60 events, 2 to 5 agents.
    Academic,
    /// 2 000 to 8 000 events, 100 to 300 agents.
    Deploy,
    /// 60 events and up with a heavy tail.
    Tail,
}

/// The description of a preset.
#[derive(Debug, Clone, Copy)]
pub struct PresetInfo {
    /// The preset.
    pub preset: Preset,
    /// The word that selects it.
    pub name: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// Traces if the caller gives no number.
    pub default_traces: u64,
}

static PRESETS: [PresetInfo; 4] = [
    PresetInfo {
        preset: Preset::Mixed,
        name: "mixed",
        summary: "58 academic, 5 tail and 1 deploy of 64 tasks; about 130 events per trace",
        default_traces: 1024,
    },
    PresetInfo {
        preset: Preset::Academic,
        name: "academic",
        summary: "10 to 60 events, 2 to 5 agents: the open evaluation regime",
        default_traces: 1024,
    },
    PresetInfo {
        preset: Preset::Deploy,
        name: "deploy",
        summary: "2 000 to 8 000 events, 100 to 300 agents, nested spawns: deployed scale",
        default_traces: 16,
    },
    PresetInfo {
        preset: Preset::Tail,
        name: "tail",
        summary: "60 to 20 000 events, heavy tail of exponent 1.1",
        default_traces: 256,
    },
];

/// All presets.
#[must_use]
pub fn presets() -> &'static [PresetInfo] {
    &PRESETS
}

impl Preset {
    /// The preset of a name.
    pub fn parse(name: &str) -> Result<Self> {
        PRESETS.iter().find(|p| p.name == name).map(|p| p.preset).ok_or_else(|| {
            Error::Parameter(unknown_name("preset", name, &PRESETS.each_ref().map(|p| p.name)))
        })
    }

    /// Name, summary and default.
    #[must_use]
    pub fn info(self) -> &'static PresetInfo {
        &PRESETS[self as usize]
    }
}

/// How large a trace is meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) events: u32,
    pub(super) agents: u32,
    /// How deep spawns may nest below the root.
    pub(super) depth: u8,
}

/// Size of a trace, from the seed and its number alone.
pub(super) fn size(preset: Preset, seed: u64, trace: u64) -> Size {
    let task = trace / ROLLOUTS;
    let preset = if preset == Preset::Mixed { share(seed, task) } else { preset };
    let mut rng = Stream::numbered(seed, "generate.size", trace);
    let (events, agents, depth) = match preset {
        Preset::Academic | Preset::Mixed => (rng.range(10, 61), rng.range(2, 6), 1),
        Preset::Deploy => (rng.range(2000, 8001), rng.range(100, MOST_AGENTS + 1), 3),
        Preset::Tail => {
            // The octave belongs to the task: rollouts of one task are of one order of magnitude.
            // 2^-1.1 = 0.4665 per octave is the tail of a Pareto law of exponent 1.1.
            let mut octaves = Stream::numbered(seed, "generate.octave", task);
            let mut base = 60;
            while base < LONGEST && octaves.bool(0.4665) {
                base *= 2;
            }
            let events = (base + rng.below(base)).min(LONGEST);
            (events, (2 + events.isqrt() + events / 100).min(MOST_AGENTS), if events > 500 { 2 } else { 1 })
        }
    };
    Size { events: events as u32, agents: agents as u32, depth }
}

/// The preset behind a task of the mixed one. Shares are exact per window rather than drawn, and the one
/// of deployed size comes late in it, so that a small corpus is not a single trace by accident.
fn share(seed: u64, task: u64) -> Preset {
    let place = task % WINDOW;
    let mut rng = Stream::numbered(seed, "generate.window", task / WINDOW);
    let deploy = rng.range(24, WINDOW);
    let tail = (0..5).any(|stratum| stratum * 12 + rng.below(12) == place);
    match (place == deploy, tail) {
        (true, _) => Preset::Deploy,
        (false, true) => Preset::Tail,
        (false, false) => Preset::Academic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_presets() {
        for info in presets() {
            assert_eq!(Preset::parse(info.name).unwrap(), info.preset);
            assert_eq!(info.preset.info().name, info.name);
        }
        let message = Preset::parse("academc").unwrap_err().to_string();
        assert!(message.contains("did you mean 'academic'"), "{message}");
    }

    #[test]
    fn sizes_keep_their_bounds() {
        for trace in 0..4000 {
            let academic = size(Preset::Academic, 3, trace);
            assert!((10..=60).contains(&academic.events) && (2..=5).contains(&academic.agents));
            let deploy = size(Preset::Deploy, 3, trace);
            assert!((2000..=8000).contains(&deploy.events) && (100..=300).contains(&deploy.agents));
            let tail = size(Preset::Tail, 3, trace);
            assert!((60..=20_000).contains(&tail.events) && (2..=300).contains(&tail.agents));
        }
    }

    #[test]
    fn mixed_has_its_shares() {
        let tasks = WINDOW * 20;
        let of = |preset| (0..tasks).filter(|&t| share(9, t) == preset).count();
        assert_eq!(of(Preset::Deploy), 20);
        assert!((85..=100).contains(&of(Preset::Tail)));
        let mean = (0..tasks * ROLLOUTS).map(|t| u64::from(size(Preset::Mixed, 9, t).events)).sum::<u64>()
            / (tasks * ROLLOUTS);
        assert!((110..200).contains(&mean), "{mean}");
    }
}
