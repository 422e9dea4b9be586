//! Values of all events under one family of gates: as recorded, and in up to 64 scenarios.

use crate::error::Result;
use crate::graph::{CsrGraph, Order, Outcome};
use crate::replay::intervention::masks::Scene;
use crate::replay::intervention::{Action, Masks, Plan};
use crate::run::Run;
use crate::schema::EventType;
use crate::store::view::TraceView;
use crate::surrogate::{Aggregation, Gate, Structure, Surrogate};

/// Scenarios that go through the gates side by side.
const LANES: usize = 8;
type Lanes = [f64; LANES];

/// What was recorded, seen through one family of gates.
#[derive(Debug, Default)]
pub(super) struct Base {
    surrogate: Surrogate,
    /// The same gates with another rule in aggregates, for the rules that some scenario has.
    swapped: Vec<(Aggregation, Surrogate)>,
    /// Value x of each gate, and what the gate makes of its inputs.
    x: Vec<f64>,
    f: Vec<f64>,
    lanes: Vec<Lanes>,
}

impl Base {
    pub(super) fn compute(
        &mut self,
        view: &TraceView<'_>,
        graph: &CsrGraph,
        order: Order<'_>,
        outcome: Outcome,
        structure: &Structure,
        plan: &Plan,
    ) {
        let Self { surrogate, swapped, x, f, lanes } = self;
        surrogate.prepare(view, graph, order, outcome, structure);
        let rules =
            plan.scenarios.iter().flat_map(|scenario| &scenario.actions).filter_map(|action| match action {
                Action::Aggregate(rule) => Some(*rule),
                _ => None,
            });
        for rule in rules {
            if swapped.iter().all(|(known, _)| *known != rule) {
                swapped.push((rule, Surrogate::default()));
            }
        }
        for (rule, other) in swapped {
            let structure = Structure { aggregate: Some(*rule), ..*structure };
            other.prepare(view, graph, order, outcome, &structure);
        }
        x.clear();
        f.clear();
        lanes.clear();
        for gate in surrogate.gates() {
            let [made, ..] = gate.evaluate(lanes);
            let recorded = gate.row.and_then(|row| view.score.get(row as usize));
            let value = recorded.map_or(made, |score| score.clamp(0.0, 1.0));
            f.push(made);
            x.push(value);
            lanes.push([value; LANES]);
        }
    }

    /// Value of the outcome as recorded.
    pub(super) fn outcome(&self) -> f64 {
        self.x.last().copied().unwrap_or(0.0)
    }

    /// Share of the events on a way to the outcome that have a recorded value.
    pub(super) fn support(&self, view: &TraceView<'_>) -> f64 {
        let rows = self.surrogate.gates().filter_map(|gate| gate.row);
        let (mut n, mut scored) = (0_u32, 0_u32);
        for row in rows {
            n += 1;
            scored += u32::from(view.score.get(row as usize).is_some());
        }
        f64::from(scored) / f64::from(n.max(1))
    }
}

/// A worker's buffers.
#[derive(Debug, Default)]
pub(super) struct Prediction {
    /// What the scenarios change about each gate, and the gates that eight of them reach.
    changes: Vec<Change<u64>>,
    reach: Vec<u64>,
    active: Vec<Vec<u32>>,
    values: Vec<Lanes>,
    /// Lanes in which each gate's value is not the recorded one.
    moved: Vec<u8>,
    touched: Vec<u32>,
    /// Inputs of a gate some of which do not arrive, and their positions.
    delivered: Vec<Lanes>,
    places: Vec<u32>,
}

/// What scenarios change about one event, a bit for each.
#[derive(Debug, Clone, Copy, Default)]
struct Change<T> {
    absent: T,
    set: T,
    cut: T,
    swap: T,
}

impl Change<u64> {
    fn any(&self) -> u64 {
        self.absent | self.set | self.cut | self.swap
    }

    /// Of eight scenarios.
    fn lanes(&self, shift: u32) -> Change<u8> {
        let of = |mask: u64| (mask >> shift) as u8;
        Change { absent: of(self.absent), set: of(self.set), cut: of(self.cut), swap: of(self.swap) }
    }
}

impl Prediction {
    /// Finds what up to 64 scenarios can change, once for all families: their gates have the same places and inputs.
    pub(super) fn prepare(&mut self, base: &Base, masks: &Masks, scene: &Scene<'_>, n: usize) {
        let Self { changes, reach, active, .. } = self;
        changes.clear();
        reach.clear();
        active.resize_with(active.len().max(n.div_ceil(LANES)), Vec::new);
        active.iter_mut().for_each(Vec::clear);
        for (place, gate) in base.surrogate.gates().enumerate() {
            let change = change(&gate, masks, scene);
            let bits = gate.inputs.iter().fold(change.any(), |bits, &u| bits | reach[u as usize]);
            changes.push(change);
            reach.push(bits);
            for (block, active) in active.iter_mut().enumerate().take(n.div_ceil(LANES)) {
                if bits >> (block * LANES) & 0xff != 0 {
                    active.push(place as u32);
                }
            }
        }
    }

    /// Outcomes of the scenarios, as many as `out` has places. Returns those in which only the outcome's own rule is
    /// another, and its value and its inputs' values are recorded.
    pub(super) fn run(
        &mut self,
        base: &Base,
        masks: &Masks,
        scene: &Scene<'_>,
        run: Option<&Run>,
        out: &mut [f64],
    ) -> Result<u64> {
        self.values.clear();
        self.values.extend_from_slice(&base.lanes);
        self.moved.clear();
        self.moved.resize(base.x.len(), 0);
        let mut direct = 0;
        let last = base.x.len().saturating_sub(1);
        let active = std::mem::take(&mut self.active);
        for (block, (out, active)) in out.chunks_mut(LANES).zip(&active).enumerate() {
            run.map_or(Ok(()), Run::check)?; // eight scenarios of a large trace take a while
            let shift = (block * LANES) as u32;
            self.touched.clear();
            for place in active.iter().map(|&place| place as usize) {
                let gate = base.surrogate.gate(place);
                let change = self.changes[place].lanes(shift);
                let inputs = gate.inputs.iter().fold(0, |moved, &u| moved | self.moved[u as usize]);
                if change.absent | change.set | change.cut | change.swap | inputs == 0 {
                    continue;
                }
                self.step(base, masks, scene, place, change, shift);
                if place == last && is_scored(&gate, scene) {
                    let own_change = change.swap & !(change.absent | change.set | change.cut | inputs);
                    direct |= u64::from(own_change) << shift;
                }
            }
            let outcome = self.values.last().copied().unwrap_or_default();
            out.copy_from_slice(&outcome[..out.len()]);
            for &place in &self.touched {
                self.values[place as usize] = base.lanes[place as usize];
                self.moved[place as usize] = 0;
            }
        }
        self.active = active;
        Ok(direct)
    }

    /// Computes a gate again.
    fn step(
        &mut self,
        base: &Base,
        masks: &Masks,
        scene: &Scene<'_>,
        place: usize,
        change: Change<u8>,
        shift: u32,
    ) {
        let gate = base.surrogate.gate(place);
        let (x, f) = (base.x[place], base.f[place]);
        let gate_value = self.evaluate(gate, masks, scene, change.cut, shift);
        // A gate that gives what it gave before leaves the event what it was, to the bit.
        let mut value = gate_value
            .map(|gate_value| if gate_value == f { x } else { (gate_value + (x - f)).clamp(0.0, 1.0) });
        if change.swap != 0 {
            for (rule, other) in &base.swapped {
                let lanes = (masks.swaps[*rule as usize] >> shift) as u8 & change.swap;
                if lanes != 0 {
                    let gate_value = self.evaluate(other.gate(place), masks, scene, change.cut, shift);
                    choose(&mut value, &gate_value, lanes);
                }
            }
        }
        if change.set != 0 {
            let row = gate.row.unwrap_or_default() as usize;
            let set: Lanes =
                std::array::from_fn(|lane| masks.set_to(row, shift + lane as u32).unwrap_or_default());
            choose(&mut value, &set, change.set);
        }
        choose(&mut value, &[0.0; LANES], change.absent);
        let moved = value
            .iter()
            .enumerate()
            .fold(0, |moved, (lane, value)| moved | u8::from(value.to_bits() != x.to_bits()) << lane);
        if moved != 0 {
            self.values[place] = value;
            self.moved[place] = moved;
            self.touched.push(place as u32);
        }
    }

    /// What a gate makes of its inputs, those of cut edges being 0.
    fn evaluate(&mut self, gate: Gate<'_>, masks: &Masks, scene: &Scene<'_>, cut: u8, shift: u32) -> Lanes {
        if cut == 0 {
            return gate.evaluate(&self.values);
        }
        let edges = scene.graph.edges_into(gate.row.unwrap_or_default() as usize);
        self.delivered.clear();
        self.places.clear();
        for (&u, e) in gate.inputs.iter().zip(edges) {
            let mut input = self.values[u as usize];
            choose(&mut input, &[0.0; LANES], (masks.cut[e] >> shift) as u8);
            self.places.push(self.delivered.len() as u32);
            self.delivered.push(input);
        }
        Gate { inputs: &self.places, ..gate }.evaluate(&self.delivered)
    }
}

fn change(gate: &Gate<'_>, masks: &Masks, scene: &Scene<'_>) -> Change<u64> {
    // the virtual sink is no event, and what leads to it is no edge of the recording
    let Some(row) = gate.row.map(|row| row as usize) else { return Change::default() };
    // a source has no inputs to lose, and no rule to change, whatever leads to it
    let fed = !gate.inputs.is_empty();
    let aggregate = fed && scene.view.event_type(row) == EventType::Aggregate;
    Change {
        absent: masks.absent[row],
        set: masks.set_in(row),
        cut: if fed { masks.cut_into(scene.graph, row) } else { 0 },
        swap: if aggregate { masks.swaps.iter().fold(0, |all, mask| all | mask) } else { 0 },
    }
}

/// Whether an event's value and those of all its inputs are recorded.
fn is_scored(gate: &Gate<'_>, scene: &Scene<'_>) -> bool {
    let scored = |v: u32| scene.view.score.get(v as usize).is_some();
    gate.row.is_some_and(|row| {
        scored(row) && scene.graph.predecessors_of(row as usize).iter().all(|&u| scored(u))
    })
}

/// Takes the lanes of `bits` from another value.
fn choose(value: &mut Lanes, other: &Lanes, bits: u8) {
    for (lane, (value, &other)) in value.iter_mut().zip(other).enumerate() {
        if bits >> lane & 1 == 1 {
            *value = other;
        }
    }
}
