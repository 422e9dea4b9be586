//! Assembly of parsed blocks: merges dictionaries in input order, remaps codes in place and numbers traces.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt32Array,
    UInt64Array, new_null_array,
};
use rayon::prelude::*;

use super::derive::{Derived, derive};
use crate::columns::Projection;
use crate::columns::RawChunk;
use crate::columns::RecordOptions;
use crate::columns::block::{LabelRow, NO_TRACE};
use crate::columns::chunk::Segment;
use crate::columns::chunk::reused_id;
use crate::columns::column::NO_CODE;
use crate::columns::event_columns::Finished;
use crate::columns::intern::Interner;
use crate::columns::quarantine::QuarantineRow;
use crate::columns::tally::Tally;
use crate::error::{Error, FINDING_CODES, Finding, FindingCode, REJECT_CODES, Result, capped, printable};
use crate::run::Run;
use crate::schema::{
    self, AGENTS, Dict, EDGE_TYPES, EDGES, EVENT_TYPES, EVENTS, FINDINGS, LABELS, MEASURE_KINDS, MEASURES,
    QUARANTINE, RECORD_COUNTS, RECORD_STATUSES, RecordStatus, TIME_BASES, TOPOLOGIES, TRACES,
};
use crate::store::arrays::{NO_WORD, code_array, filter_chunk, mapped_array, text_array, word_array};
use crate::store::{Chunk, Names, REQUIRED_EVENT_COLUMNS, Store, events_schema};

/// Puts blocks in input order and makes one store of them.
pub fn assemble(
    mut raw: Vec<RawChunk>,
    files: &[String],
    options: &RecordOptions,
    run: &Run,
) -> Result<Store> {
    raw.sort_by_key(RawChunk::place);
    let events: u64 = raw.iter().map(|c| c.types.len() as u64).sum();
    if events >= u64::from(u32::MAX) {
        return Err(Error::TooLarge(format!(
            "{events} events do not fit a corpus in memory (limit {}); read the inputs in parts",
            u32::MAX - 1
        )));
    }
    let mut interners: Vec<Interner> = (0..Dict::COUNT).map(|_| Interner::default()).collect();
    let file_codes: Vec<u32> = files.iter().map(|f| interners[Dict::File as usize].code(f)).collect();
    let maps: Vec<Vec<Vec<u32>>> = raw
        .iter()
        .map(|chunk| {
            let pairs = chunk.dicts.iter().zip(&mut interners);
            pairs.map(|(local, global)| local.names().map(|name| global.code(name)).collect()).collect()
        })
        .collect();
    // Entries of archives are known by their own names.
    let files_of: Vec<Vec<u32>> = raw
        .iter()
        .map(|chunk| {
            let file = |segment: &Segment| match &segment.entry {
                Some(entry) => interners[Dict::File as usize].code(entry),
                None => file_codes.get(segment.source).copied().unwrap_or(NO_CODE),
            };
            chunk.segments.iter().map(file).collect()
        })
        .collect();
    let importers = &mut interners[Dict::Importer as usize];
    for chunk in &raw {
        for (segment, _, rejects) in chunk.parts() {
            let counted = segment.tallies.iter().flatten().map(|tally| &*tally.importer);
            let rejected = chunk.quarantine[rejects].iter().map(|row| &*row.importer);
            for name in rejected.chain(segment.importer).chain(counted) {
                importers.code(name);
            }
        }
    }
    let counts = counted(&raw, &maps, (&file_codes, &files_of), importers);
    if let Some(names) = interners.iter().map(Interner::text_bytes).find(|bytes| *bytes > i32::MAX as usize) {
        return Err(Error::TooLarge(format!(
            "distinct names of one kind take {names} bytes and do not fit a corpus in memory (limit {}); read the \
             inputs in parts",
            i32::MAX
        )));
    }
    let names = Arc::new(Names::new(interners));
    let mut event_columns: Vec<usize> = raw.iter().flat_map(|c| c.optional.iter().map(|(i, _)| *i)).collect();
    event_columns.sort_unstable();
    event_columns.dedup();

    count_lines(&mut raw);
    let first_traces = first_traces(&raw);
    let mapping = raw.iter().find_map(|chunk| chunk.mapping.clone());
    let mut quarantine = Vec::new();
    let mut labels = Vec::new();
    for ((chunk, map), files) in raw.iter_mut().zip(&maps).zip(&files_of) {
        let mut rows = std::mem::take(&mut chunk.quarantine).into_iter();
        for (segment, file) in chunk.segments.iter().zip(files) {
            let place = (segment.source, segment.index);
            quarantine.extend(rows.by_ref().take(segment.quarantined).map(|row| (place, *file, row)));
        }
        for mut row in chunk.labels.drain(..) {
            let mask = chunk.keep.as_ref().filter(|_| row.trace != NO_TRACE);
            if mask.is_some_and(|keep| !keep[row.trace as usize]) {
                continue;
            }
            row.annotator = map[Dict::Annotator as usize][row.annotator as usize];
            row.label = map[Dict::Label as usize][row.label as usize];
            labels.push(row);
        }
    }
    // Counts of what was gathered are of all inputs.
    quarantine.sort_by_key(|(place, ..)| *place);
    let quarantine: Vec<_> = quarantine.into_iter().map(|(_, file, row)| (file, row)).collect();
    note_reused_ids(&mut raw, &first_traces);

    let builder = Builder { names: &names, event_columns: &event_columns, options };
    let inputs = raw.into_iter().zip(first_traces).zip(maps).zip(files_of);
    let inputs: Vec<_> = inputs.filter(|(((chunk, _), _), _)| !chunk.facts.is_empty()).collect();
    let chunks = run.pool().install(|| {
        inputs
            .into_par_iter()
            .map(|(((chunk, first), map), files)| {
                run.check()?;
                let n = chunk.facts.len() as u32;
                let numbers = chunk.numbers.clone().unwrap_or_else(|| (first..first + n).collect());
                let keep = chunk.keep.clone();
                let chunk = builder.chunk(chunk, &numbers, &map, &files)?;
                match keep {
                    Some(keep) => filter_chunk(&chunk, &keep),
                    None => Ok(chunk),
                }
            })
            .collect::<Result<Vec<Chunk>>>()
    })?;
    Ok(Store {
        chunks,
        labels: labels_batch(&labels, &names)?,
        quarantine: quarantine_batch(&quarantine, &names)?,
        record_counts: counts_batch(&counts, &names)?,
        names,
        event_columns,
        lifted: options.fields.clone(),
        records_read: counts.values().sum(),
        projection: options.projection,
        mapping,
        set_aside: Vec::new(),
    })
}

/// Row of `record_counts`: input, file, importer, status, kind. The file is the input or an entry of it, whose row stands
/// with those of its archive however many inputs are read together.
type Counted = BTreeMap<(u32, u32, u32, u8, Option<Box<str>>), u64>;

/// What became of records, by input in the order of the inputs. `files` are those of inputs and, by chunk, of segments.
fn counted(
    raw: &[RawChunk],
    maps: &[Vec<Vec<u32>>],
    (files, files_of): (&[u32], &[Vec<u32>]),
    importers: &Interner,
) -> Counted {
    let mut rows = Counted::new();
    let mut add = |(input, file), importer, status: RecordStatus, kind: Option<&str>, n| {
        if n > 0 {
            *rows.entry((input, file, importer, status as u8, kind.map(Into::into))).or_default() += n;
        }
    };
    let code = |name: &str| importers.find(name).unwrap_or(NO_CODE);
    for ((chunk, map), own) in raw.iter().zip(maps).zip(files_of) {
        for ((segment, traces, rejects), own) in chunk.parts().zip(own) {
            let file = files.get(segment.source).copied().unwrap_or(NO_CODE);
            if let Some(tallies) = &segment.tallies {
                // Entries of an archive that are not read have rows of their own.
                for Tally { importer, status, kind, count } in tallies {
                    add((file, *own), code(importer), *status, kind.as_deref(), *count);
                }
                continue;
            }
            for row in &chunk.quarantine[rejects] {
                add((file, file), code(&row.importer), RecordStatus::Quarantined, None, 1);
            }
            for i in traces {
                let stays = chunk.keep.as_ref().is_none_or(|keep| keep[i]);
                let status = if stays { RecordStatus::Used } else { RecordStatus::Duplicate };
                let of = |codes: &Vec<u32>| map[Dict::File as usize].get(codes[i] as usize).copied();
                let file = chunk.files.as_ref().map_or(Some(file), of).unwrap_or(NO_CODE);
                let named = |i: u32| map[Dict::Importer as usize][i as usize];
                let own_code = || chunk.facts[i].importer.map_or(NO_CODE, named);
                add((file, file), segment.importer.map_or_else(own_code, code), status, None, 1);
            }
        }
    }
    rows
}

/// Counts the lines of all chunks from the start of their inputs.
fn count_lines(raw: &mut [RawChunk]) {
    let (mut source, mut lines) = (usize::MAX, 0);
    for chunk in raw {
        chunk.count_lines(|segment| {
            if segment.source != source {
                (source, lines) = (segment.source, 0);
            }
            lines += segment.lines;
            lines - segment.lines
        });
    }
}

/// Of each chunk the number of its first trace, where traces are numbered in order.
fn first_traces(raw: &[RawChunk]) -> Vec<u32> {
    let begins =
        raw.iter().scan(0, |next, chunk| Some(std::mem::replace(next, *next + chunk.facts.len() as u32)));
    begins.collect()
}

/// A `trace_id` that an earlier trace of the corpus has is a finding on the later one, unless it is known already.
fn note_reused_ids(raw: &mut [RawChunk], first_traces: &[u32]) {
    let mut first: HashMap<Box<str>, u32> = HashMap::new();
    for (chunk, begin) in raw.iter_mut().zip(first_traces) {
        // Where an index looked, it saw more traces than these.
        if chunk.digests.len() == chunk.facts.len() && !chunk.digests.is_empty() {
            continue;
        }
        let ids = Arc::clone(&chunk.trace_id);
        for (local, id) in ids.as_string_view().iter().enumerate() {
            let id = id.unwrap_or_default();
            let number = chunk.numbers.as_ref().map_or(begin + local as u32, |n| n[local]);
            if let Some(earlier) = first.get(id) {
                let reused = chunk.findings.iter();
                let reused = reused.filter(|(_, f)| f.code == FindingCode::TraceIdReused);
                if reused.map(|(trace, _)| *trace).all(|trace| trace != local as u32) {
                    chunk.findings.push((local as u32, reused_id(id, *earlier)));
                }
            } else {
                first.insert(id.into(), number);
            }
        }
    }
}

struct Builder<'a> {
    names: &'a Arc<Names>,
    event_columns: &'a [usize],
    options: &'a RecordOptions,
}

/// The number of its trace for each row of a table.
fn numbered(starts: &[[u32; 3]], table: usize, numbers: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(starts.last().map_or(0, |s| s[table] as usize));
    for (number, window) in numbers.iter().zip(starts.windows(2)) {
        out.resize(window[1][table] as usize, *number);
    }
    out
}

impl Builder<'_> {
    fn names(&self, codes: Vec<u32>, dict: Dict, map: &[Vec<u32>]) -> Result<ArrayRef> {
        mapped_array(codes, &map[dict as usize], self.names.array(dict))
    }

    fn chunk(&self, mut raw: RawChunk, numbers: &[u32], map: &[Vec<u32>], files: &[u32]) -> Result<Chunk> {
        let mut starts = Vec::with_capacity(raw.ends.len() + 1);
        starts.push([0; 3]);
        starts.append(&mut raw.ends);
        let projection = &self.options.projection;
        let needed = projection.needed();
        let events = self.events(&mut raw, &starts, numbers, map, &needed)?;
        let edges = RecordBatch::try_new(
            EDGES.arrow(),
            vec![
                Arc::new(UInt32Array::from(numbered(&starts, 1, numbers))),
                Arc::new(UInt32Array::from(std::mem::take(&mut raw.src))),
                Arc::new(UInt32Array::from(std::mem::take(&mut raw.dst))),
                word_array(std::mem::take(&mut raw.edge_types), EDGE_TYPES)?,
            ],
        )?;
        let measures = if projection.table("measures") {
            RecordBatch::try_new(
                MEASURES.arrow(),
                vec![
                    Arc::new(UInt32Array::from(numbered(&starts, 2, numbers))),
                    word_array(std::mem::take(&mut raw.measure_kinds), MEASURE_KINDS)?,
                    self.names(std::mem::take(&mut raw.measure_names), Dict::Measure, map)?,
                    Arc::new(Float64Array::from(std::mem::take(&mut raw.measure_values))),
                ],
            )?
        } else {
            RecordBatch::new_empty(MEASURES.arrow())
        };
        let derived = if projection.derives() {
            let partial: Vec<bool> = raw.facts.iter().map(|facts| facts.partial).collect();
            derive(&events, &edges, &starts, numbers, &partial, self.names)
        } else {
            Derived::default()
        };
        let findings = if projection.table("findings") {
            findings_batch(std::mem::take(&mut raw.findings), &derived, numbers)?
        } else {
            RecordBatch::new_empty(FINDINGS.arrow())
        };
        let agents = agents_batch(&derived, numbers, self.names)?;
        let traces = if projection.table("traces") {
            self.traces(&raw, &starts, &derived, numbers, map, files)?
        } else {
            RecordBatch::new_empty(TRACES.arrow())
        };
        let empty_metrics = raw.facts.iter().map(|f| f.empty_metrics).collect();
        // What was only needed on the way is let go.
        let edges = if projection.table("edges") { edges } else { RecordBatch::new_empty(EDGES.arrow()) };
        let agents = if projection.table("agents") { agents } else { RecordBatch::new_empty(AGENTS.arrow()) };
        let schema = events_schema(self.event_columns, &self.options.fields, projection);
        let events = if *projection == needed {
            events
        } else {
            let wanted = schema.fields().iter().map(|f| events.schema_ref().index_of(f.name()));
            events.project(&wanted.collect::<std::result::Result<Vec<_>, _>>()?)?
        };
        Ok(Chunk {
            traces,
            events,
            edges,
            agents,
            measures,
            findings,
            starts,
            empty_metrics,
            ownership: derived.ownership.map(Arc::new),
            trace_ids: OnceLock::new(),
        })
    }

    fn events(
        &self,
        raw: &mut RawChunk,
        starts: &[[u32; 3]],
        numbers: &[u32],
        map: &[Vec<u32>],
        needed: &Projection,
    ) -> Result<RecordBatch> {
        let rows = raw.types.len();
        let mut columns: Vec<ArrayRef> =
            Vec::with_capacity(REQUIRED_EVENT_COLUMNS + self.event_columns.len());
        if needed.column(0) {
            columns.push(Arc::new(UInt32Array::from(numbered(starts, 0, numbers))));
        }
        if needed.column(1) {
            let mut seq = Vec::with_capacity(rows);
            for window in starts.windows(2) {
                seq.extend(0..window[1][0] - window[0][0]);
            }
            columns.push(Arc::new(UInt32Array::from(seq)));
        }
        if needed.column(2) {
            columns.push(Arc::clone(&raw.id));
        }
        if needed.column(3) {
            columns.push(Arc::new(Float64Array::from(std::mem::take(&mut raw.t))));
        }
        if needed.column(4) {
            columns.push(word_array(std::mem::take(&mut raw.types), EVENT_TYPES)?);
        }
        if needed.column(5) {
            columns.push(self.names(std::mem::take(&mut raw.agent), Dict::Agent, map)?);
        }
        let mut used = std::mem::take(&mut raw.optional).into_iter().peekable();
        for index in self.event_columns {
            let finished = used.next_if(|(i, _)| i == index).map(|(_, finished)| finished);
            columns.push(match finished {
                Some(Finished::Array(array)) => array,
                Some(Finished::Codes(codes, dict)) => self.names(codes, dict, map)?,
                None => self.null_column(*index, rows)?,
            });
        }
        // A batch may have rows and no columns.
        let shape = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = events_schema(self.event_columns, &self.options.fields, needed);
        Ok(RecordBatch::try_new_with_options(schema, columns, &shape)?)
    }

    fn null_column(&self, index: usize, rows: usize) -> Result<ArrayRef> {
        match EVENTS.columns.get(index).map(|c| c.kind) {
            Some(schema::Kind::Name(dict)) => code_array(vec![NO_CODE; rows], self.names.array(dict)),
            Some(kind) => Ok(new_null_array(&kind.arrow(), rows)),
            None => {
                Ok(new_null_array(&self.options.fields[index - EVENTS.columns.len()].1.kind().arrow(), rows))
            }
        }
    }

    fn traces(
        &self,
        raw: &RawChunk,
        starts: &[[u32; 3]],
        derived: &Derived,
        numbers: &[u32],
        map: &[Vec<u32>],
        files: &[u32],
    ) -> Result<RecordBatch> {
        let facts = raw.facts.iter();
        let count = |table: usize| -> ArrayRef {
            Arc::new(UInt32Array::from_iter_values(starts.windows(2).map(|w| w[1][table] - w[0][table])))
        };
        let position = |f: fn(&crate::columns::quarantine::Position) -> u64| -> ArrayRef {
            Arc::new(raw.positions.iter().map(|p| (p.line > 0).then(|| f(p))).collect::<UInt64Array>())
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(numbers.to_vec())),
            Arc::clone(&raw.trace_id),
            Arc::clone(&raw.task_id),
            Arc::clone(&raw.group_id),
            self.names(facts.clone().map(|f| f.system.unwrap_or(NO_CODE)).collect(), Dict::System, map)?,
            word_array(facts.clone().map(|f| f.topology.map_or(NO_WORD, |t| t as u8)).collect(), TOPOLOGIES)?,
            self.names(facts.clone().map(|f| f.importer.unwrap_or(NO_CODE)).collect(), Dict::Importer, map)?,
            word_array(
                facts.clone().map(|f| f.time_basis.map_or(NO_WORD, |t| t as u8)).collect(),
                TIME_BASES,
            )?,
            Arc::new(
                facts
                    .clone()
                    .map(|f| f.started_at)
                    .collect::<PrimitiveArray<TimestampNanosecondType>>()
                    .with_timezone("UTC"),
            ),
            Arc::new(facts.map(|f| Some(f.partial)).collect::<BooleanArray>()),
            count(0),
            count(1),
            Arc::new(PrimitiveArray::<UInt32Type>::from(derived.n_agents.clone())),
            if let Some(files) = &raw.files {
                self.names(files.clone(), Dict::File, map)?
            } else {
                let parts = raw.segments.iter().zip(files);
                let files = parts.flat_map(|(part, file)| std::iter::repeat_n(*file, part.traces)).collect();
                code_array(files, self.names.array(Dict::File))?
            },
            position(|p| p.line),
            position(|p| p.offset),
            position(|p| p.length),
        ];
        Ok(RecordBatch::try_new(TRACES.arrow(), columns)?)
    }
}

/// Findings of importers and those of the graph, by trace and code.
pub(crate) fn findings_batch(
    mut rows: Vec<(u32, Finding)>,
    derived: &Derived,
    numbers: &[u32],
) -> Result<RecordBatch> {
    rows.extend(derived.findings.iter().cloned());
    rows.sort_by_key(|(trace, finding)| (*trace, finding.code as u8));
    // Messages quote ids and names, which may hold anything and be as long as a record.
    let messages: Vec<String> =
        rows.iter().map(|(_, f)| capped(printable(&f.message).into_owned())).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(trace, _)| numbers[*trace as usize]))),
        word_array(rows.iter().map(|(_, f)| f.code as u8).collect(), FINDING_CODES)?,
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(_, f)| f.count))),
        Arc::new(rows.iter().map(|(_, f)| f.seq).collect::<UInt32Array>()),
        text_array(messages.iter().map(|m| Some(m.as_str()))),
    ];
    Ok(RecordBatch::try_new(FINDINGS.arrow(), columns)?)
}

pub(crate) fn agents_batch(derived: &Derived, numbers: &[u32], names: &Names) -> Result<RecordBatch> {
    let rows = &derived.agents;
    let or_none = |code: Option<u32>| code.unwrap_or(NO_CODE);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(trace, _)| numbers[*trace as usize]))),
        code_array(rows.iter().map(|(_, r)| r.agent).collect(), names.array(Dict::Agent))?,
        word_array(rows.iter().map(|(_, r)| r.kind as u8).collect(), schema::AGENT_KINDS)?,
        code_array(rows.iter().map(|(_, r)| or_none(r.role)).collect(), names.array(Dict::Role))?,
        Arc::new(rows.iter().map(|(_, r)| r.trainable).collect::<BooleanArray>()),
        code_array(rows.iter().map(|(_, r)| or_none(r.parent)).collect(), names.array(Dict::Agent))?,
        Arc::new(rows.iter().map(|(_, r)| r.depth).collect::<UInt32Array>()),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(_, r)| r.first_seq))),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|(_, r)| r.n_events))),
    ];
    Ok(RecordBatch::try_new(AGENTS.arrow(), columns)?)
}

fn labels_batch(rows: &[LabelRow], names: &Names) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = vec![
        text_array(rows.iter().map(|r| Some(r.trace_id.as_str()))),
        code_array(rows.iter().map(|r| r.annotator).collect(), names.array(Dict::Annotator))?,
        text_array(rows.iter().map(|r| r.event_id.as_deref())),
        Arc::new(rows.iter().map(|r| r.turn).collect::<UInt32Array>()),
        text_array(rows.iter().map(|r| r.agent.as_deref())),
        code_array(rows.iter().map(|r| r.label).collect(), names.array(Dict::Label))?,
        Arc::new(rows.iter().map(|r| r.weight).collect::<Float64Array>()),
    ];
    Ok(RecordBatch::try_new(LABELS.arrow(), columns)?)
}

fn counts_batch(rows: &Counted, names: &Names) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = vec![
        code_array(rows.keys().map(|k| k.1).collect(), names.array(Dict::File))?,
        code_array(rows.keys().map(|k| k.2).collect(), names.array(Dict::Importer))?,
        word_array(rows.keys().map(|k| k.3).collect(), RECORD_STATUSES)?,
        text_array(rows.keys().map(|k| k.4.as_deref())),
        Arc::new(UInt64Array::from_iter_values(rows.values().copied())),
    ];
    Ok(RecordBatch::try_new(RECORD_COUNTS.arrow(), columns)?)
}

fn quarantine_batch(rows: &[(u32, QuarantineRow)], names: &Names) -> Result<RecordBatch> {
    let number = |f: fn(&QuarantineRow) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(_, r)| f(r))))
    };
    let importer = |r: &QuarantineRow| names.dict(Dict::Importer).find(&r.importer).unwrap_or(NO_CODE);
    let columns: Vec<ArrayRef> = vec![
        code_array(rows.iter().map(|(file, _)| *file).collect(), names.array(Dict::File))?,
        number(|r| r.position.offset),
        number(|r| r.position.line),
        number(|r| r.position.length),
        word_array(rows.iter().map(|(_, r)| r.reject.code as u8).collect(), REJECT_CODES)?,
        text_array(rows.iter().map(|(_, r)| Some(r.reject.path.as_str()))),
        text_array(rows.iter().map(|(_, r)| Some(r.reject.message.as_str()))),
        code_array(rows.iter().map(|(_, r)| importer(r)).collect(), names.array(Dict::Importer))?,
        text_array(rows.iter().map(|(_, r)| Some(r.excerpt.as_str()))),
    ];
    Ok(RecordBatch::try_new(QUARANTINE.arrow(), columns)?)
}
