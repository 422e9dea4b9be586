//! Several recordings of one run: which is used, and what the others state that it does not.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};

use super::spread::{Scratch, Spread};
use super::{Codes, Gathered, GroupOutput};
use crate::columns::block::BlockWriter;
use crate::columns::tally::Tallies;
use crate::importers::recording::{Beside, Stated, shown_path};
use crate::importers::{Recorded, TraceItems};
use crate::ingest::ReadOptions;
use crate::schema::RecordStatus;

/// A trace that is set aside for another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rival {
    pub number: u32,
    /// How it records the run.
    pub recorded: Recorded,
    /// Whether both are of the same sessions: what one states of the whole then holds for the other.
    pub is_same: bool,
}

impl Gathered {
    /// Of several recordings of a session the one that records most is used. One is set aside if that is so for each of
    /// its sessions. `first` says which trace a key is gathered into, `in_folders` the traces of a folder of one run. Also gives the
    /// recordings of each such run, what is used first.
    pub(super) fn choose(
        &self,
        first: &[u32],
        in_folders: &BTreeMap<&str, BTreeSet<u32>>,
    ) -> (HashSet<u32>, HashMap<u32, Vec<Rival>>) {
        let importer = |number: u32| self.importers[self.planned[number as usize].importer as usize];
        let name = |trace: u32| self.keys.name(self.planned[trace as usize].key);
        let sessions = (0_u32..).zip(first).filter_map(|(number, trace)| {
            let (session, recorded) = importer(number).session(self.key(number))?;
            (self.planned[*trace as usize].bytes > 0).then_some((session, recorded, *trace))
        });
        let mut richest = HashMap::new();
        for (session, recorded, trace) in sessions.clone() {
            let best = richest.entry(session).or_insert((recorded, trace));
            if recorded > best.0 || (recorded == best.0 && name(trace) < name(best.1)) {
                *best = (recorded, trace);
            }
        }
        let mut of: HashMap<u32, (Recorded, BTreeSet<&str>)> = HashMap::new();
        let mut better: HashMap<u32, Option<u32>> = HashMap::new();
        for (session, recorded, trace) in sessions {
            let entry = of.entry(trace).or_insert((recorded, BTreeSet::new()));
            entry.0 = entry.0.max(recorded);
            entry.1.insert(session);
            let best = richest.get(session).filter(|best| best.0 > recorded).map(|best| best.1);
            let best_so_far = better.entry(trace).or_insert(best);
            // Of several the one of the least name.
            *best_so_far = best_so_far.and_then(|best_so_far| {
                best.map(|best| if name(best) < name(best_so_far) { best } else { best_so_far })
            });
        }
        // A document that was made of a run may call it otherwise: the folder says whose it is. What names no session is
        // a file of the program itself.
        let unnamed = (Recorded::Itself, BTreeSet::new());
        for traces in in_folders.values() {
            let recording_of = |trace: &u32| of.get(trace).unwrap_or(&unnamed);
            let used = traces.iter().filter(|trace| better.get(*trace).copied().flatten().is_none());
            let (own, later): (Vec<u32>, Vec<u32>) =
                used.partition(|trace| recording_of(trace).0 == Recorded::Itself);
            if let [best] = own[..] {
                let others =
                    later.iter().filter(|later| recording_of(later).1.is_disjoint(&recording_of(&best).1));
                better.extend(others.map(|later| (*later, Some(best))).collect::<Vec<_>>());
            }
        }
        let mut rivals: HashMap<u32, Vec<Rival>> = HashMap::new();
        for (trace, best) in &better {
            if let Some(best) = best {
                let (own, other) = (of.get(best).unwrap_or(&unnamed), of.get(trace).unwrap_or(&unnamed));
                let rivals = rivals
                    .entry(*best)
                    .or_insert_with(|| vec![Rival { number: *best, recorded: own.0, is_same: true }]);
                rivals.push(Rival { number: *trace, recorded: other.0, is_same: own.1 == other.1 });
            }
        }
        for rivals in rivals.values_mut() {
            rivals[1..].sort_by(|a, b| (b.recorded, name(a.number)).cmp(&(a.recorded, name(b.number))));
        }
        (better.into_iter().filter_map(|(trace, best)| best.map(|_| trace)).collect(), rivals)
    }

    /// Gives the items of what is set aside to what is used, which looks at both.
    pub(super) fn gather_rivals(&mut self, maps: &mut [Codes]) {
        let mut used: HashMap<u32, u32> = HashMap::new();
        for (trace, rivals) in &self.rivals {
            for rival in &rivals[1..] {
                used.insert(rival.number, *trace);
                let bytes = std::mem::take(&mut self.planned[rival.number as usize].bytes);
                self.planned[*trace as usize].bytes += bytes;
            }
        }
        for map in maps {
            map.own_traces.clone_from(&map.traces);
            if !used.is_empty() {
                map.traces.iter_mut().for_each(|trace| *trace = used.get(trace).copied().unwrap_or(*trace));
            }
        }
    }
}

impl<'a> Spread<'a, '_> {
    /// Writes what is recorded best of the run, with what the other recordings alone state. One that has no response of a
    /// model gives way to one that has.
    pub(super) fn make_best(
        &self,
        rivals: &[Rival],
        options: &ReadOptions,
        writer: &mut BlockWriter,
        scratch: &mut Scratch,
        output: &mut GroupOutput,
        files: &mut Vec<&'a str>,
    ) {
        let rows: Vec<(Rival, Vec<(u32, u32)>)> = rivals
            .iter()
            .map(|rival| {
                let is_own = |place: &&(u32, u32)| self.row(**place).1.own == rival.number;
                (*rival, self.rows.iter().filter(is_own).copied().collect())
            })
            .collect();
        let mut stated: Vec<Stated> = Vec::with_capacity(rows.len());
        for (rival, rows) in &rows {
            let recording = Spread { rows, number: rival.number, ..*self };
            let is_same = rival.is_same;
            stated.push(Stated { is_same, ..recording.states(rival.recorded, options, writer, scratch) });
        }
        let used = stated.iter().position(|stated| stated.n_responses > 0).unwrap_or(0);
        let best = stated.remove(used);
        for aside in &mut stated {
            aside.is_same &= best.is_same;
        }
        let beside = Beside { used: best.what, format: best.format, aside: stated };
        for (_, (_, rows)) in rows.iter().enumerate().filter(|(at, _)| *at != used) {
            for (_, row) in rows.iter().map(|place| self.row(*place)).filter(|(_, row)| !row.lost) {
                let planned = self.gathered.planned[row.own as usize];
                let name = self.gathered.importers[planned.importer as usize].info().name;
                let (_, input) = &self.gathered.sources[row.source as usize];
                output.tallies.add(*input, name, RecordStatus::Duplicate, 1);
            }
        }
        let (rival, rows) = &rows[used];
        let recording = Spread { rows, number: rival.number, ..*self };
        recording.make_one(Some(&beside), options, writer, scratch, output, files);
    }

    /// What the items state of the run.
    fn states(
        &self,
        recorded: Recorded,
        options: &ReadOptions,
        writer: &mut BlockWriter,
        scratch: &mut Scratch,
    ) -> Stated {
        let planned = self.gathered.planned[self.number as usize];
        let importer = self.gathered.importers[planned.importer as usize];
        let (name, key) = (importer.info().name, self.gathered.key(planned.key));
        let (items, rows) = self.distinct(scratch, name, &mut Tallies::default());
        let description = format!("{} ({name}, {})", recorded.words(), self.places());
        let Some(first) = rows.first() else {
            return Stated { what: description, format: name, ..Stated::default() };
        };
        let trace = TraceItems::new(key, &items, planned.partial, options.records.limits).stating();
        let mut out = writer.begin(&options.records, first.position);
        importer.trace(&trace, &mut out);
        out.rollback();
        let stated = trace.stated().map(std::cell::RefCell::take).unwrap_or_default();
        Stated { what: description, format: name, ..stated }
    }

    /// The files that the items lie in.
    fn places(&self) -> String {
        let sources = self.rows.iter().map(|place| self.row(*place).1.source as usize);
        let paths: BTreeSet<&str> = sources.map(|source| &*self.gathered.sources[source].0).collect();
        let Some(first) = paths.first() else { return String::new() };
        let shown = shown_path(first);
        match paths.len() {
            1 => shown,
            n => format!("{shown} and {} more", n - 1),
        }
    }
}
