//! Trees of spans in time order, for any order of records.

use hashbrown::HashMap;

use super::{NONE, Span, Spans, ToolKind, Unused, Work};

/// Spans by their parents.
#[derive(Debug, Default)]
pub(super) struct Forest {
    /// Spans from the roots down, children by time. What repeats another span is not among them.
    pub order: Vec<u32>,
    pub parent: Vec<u32>,
    /// Of each span when its tree is walked: steps so far as it is entered, and as it is left.
    pub tour: Vec<(u32, u32)>,
    pub places: Vec<Place>,
    /// Whether a span names a parent that is not there.
    pub orphans: bool,
    /// A span that is its own ancestor by its source.
    pub cyclic: Option<u32>,
}

/// What a span is part of; spans without meaning are left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Nearest span with a meaning.
    pub above: u32,
    pub agent: u32,
    /// Nearest tool below the agent.
    pub tool: u32,
    /// Nearest generation below tool and agent.
    pub generation: u32,
    /// Nearest part of the program with a name, below the agent.
    pub chain: u32,
    /// Whether the span itself has no meaning where it is.
    pub gone: bool,
}

const ROOT: Place =
    Place { above: NONE, agent: NONE, tool: NONE, generation: NONE, chain: NONE, gone: false };

fn time(span: &Span) -> i64 {
    span.start.or(span.end).unwrap_or(i64::MAX)
}

impl Forest {
    pub(super) fn of(
        all: &Spans,
        same: &dyn Fn(u32, u32) -> bool,
        note_unused: &mut dyn FnMut(u32, Unused),
    ) -> Self {
        let spans = &all.spans;
        let id = |i: u32| all.recording.read(spans[i as usize].id);
        let mut by_time: Vec<u32> = (0..spans.len() as u32).collect();
        by_time.sort_by(|a, b| {
            let key =
                |i: u32| (time(&spans[i as usize]), id(i), spans[i as usize].end.unwrap_or(i64::MAX), i);
            key(*a).cmp(&key(*b))
        });

        // Two records are of one span, perhaps in two serializations, if they have its id, its times and its parent.
        let is_twin = |early: u32, late: u32| {
            let (early, late) = (&spans[early as usize], &spans[late as usize]);
            let parent = |span: &Span| all.recording.read(span.parent);
            early.start.is_some()
                && (early.start, early.end) == (late.start, late.end)
                && parent(early) == parent(late)
        };
        let mut first_of: HashMap<&str, u32> = HashMap::with_capacity(spans.len());
        let mut stays = vec![true; spans.len()];
        for &i in &by_time {
            let Some(first) = first_of.get(id(i)).copied() else {
                first_of.insert(id(i), i);
                continue;
            };
            let ended = |i: u32| spans[i as usize].end.is_some();
            let (item, other) = (spans[i as usize].item, spans[first as usize].item);
            // What is recorded as it begins is recorded again when it ends.
            if ended(i) && !ended(first) {
                stays[first as usize] = false;
                note_unused(other, Unused::Duplicate);
                first_of.insert(id(i), i);
            } else if (!ended(i) && ended(first)) || same(item, other) || is_twin(i, first) {
                stays[i as usize] = false;
                note_unused(item, Unused::Duplicate);
            }
        }
        by_time.retain(|i| stays[*i as usize]);

        let mut forest = Self { parent: vec![NONE; spans.len()], ..Self::default() };
        for &i in &by_time {
            let parent = spans[i as usize].parent;
            if parent.is_none() {
                continue;
            }
            match first_of.get(all.recording.read(parent)) {
                Some(p) => forest.parent[i as usize] = *p,
                None => forest.orphans = true,
            }
        }
        forest.break_cycles(&by_time);
        forest.walk(&by_time);
        forest.place(spans);
        forest
    }

    /// A span that would be its own ancestor is a root.
    fn break_cycles(&mut self, by_time: &[u32]) {
        let mut state = vec![0_u8; self.parent.len()];
        let mut path = Vec::new();
        for &start in by_time {
            let mut at = start;
            while at != NONE && state[at as usize] == 0 {
                state[at as usize] = 1;
                path.push(at);
                at = self.parent[at as usize];
            }
            if at != NONE && state[at as usize] == 1 {
                self.parent[at as usize] = NONE;
                self.cyclic.get_or_insert(at);
            }
            for at in path.drain(..) {
                state[at as usize] = 2;
            }
        }
    }

    fn walk(&mut self, by_time: &[u32]) {
        let n = self.parent.len();
        let mut starts = vec![0_u32; n + 2];
        let slot = |parent: u32| if parent == NONE { n } else { parent as usize };
        for &i in by_time {
            starts[slot(self.parent[i as usize]) + 1] += 1;
        }
        for k in 1..starts.len() {
            starts[k] += starts[k - 1];
        }
        let mut next = starts.clone();
        let mut children = vec![0_u32; by_time.len()];
        for &i in by_time {
            let at = &mut next[slot(self.parent[i as usize])];
            children[*at as usize] = i;
            *at += 1;
        }
        let of = |k: usize| children[starts[k] as usize..starts[k + 1] as usize].iter().rev();
        self.tour = vec![(0, 0); n];
        self.order = Vec::with_capacity(by_time.len());
        let mut stack: Vec<(u32, bool)> = of(n).map(|i| (*i, false)).collect();
        let mut step = 0;
        while let Some((i, left)) = stack.pop() {
            step += 1;
            if left {
                self.tour[i as usize].1 = step;
                continue;
            }
            self.tour[i as usize].0 = step;
            self.order.push(i);
            stack.push((i, true));
            stack.extend(of(i as usize).map(|child| (*child, false)));
        }
    }

    fn place(&mut self, spans: &[Span]) {
        self.places = vec![ROOT; spans.len()];
        for &i in &self.order {
            let p = self.parent[i as usize];
            let mut place = ROOT;
            if p != NONE {
                place = Place { gone: false, ..self.places[p as usize] };
                if !self.places[p as usize].gone {
                    match spans[p as usize].work {
                        Work::Agent(_) => place = Place { above: p, agent: p, ..ROOT },
                        Work::Tool(_) => place = Place { above: p, tool: p, generation: NONE, ..place },
                        Work::Generation(_) => place = Place { above: p, generation: p, ..place },
                        Work::Chain(name) => {
                            place.above = p;
                            place.chain = if name.is_none() { place.chain } else { p };
                        }
                        Work::Guardrail(_) => place.above = p,
                        Work::Creates(_) | Work::Decision | Work::Nothing => {}
                    }
                }
            }
            place.gone = match &spans[i as usize].work {
                Work::Nothing => true,
                Work::Tool(tool) => tool.kind == ToolKind::Relay && place.tool != NONE,
                _ => false,
            };
            self.places[i as usize] = place;
        }
    }
}
