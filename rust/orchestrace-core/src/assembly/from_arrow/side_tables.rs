//! Tables beside the traces: labels, rejected records and counts of records.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use arrow_array::Array;

use super::table_reader::TableReader;
use super::{Tables, Taking};
use crate::columns::RawChunk;
use crate::columns::RecordOptions;
use crate::columns::block::BlockWriter;
use crate::columns::chunk::Segment;
use crate::columns::gate::Bound;
use crate::columns::quarantine::{Position, QuarantineRow};
use crate::columns::tally::Tally;
use crate::columns::writer::Label;
use crate::error::{Error, Reject, RejectCode, Result, printable};
use crate::schema::{LABELS, QUARANTINE, RecordStatus};
use crate::store::SetAside;
use crate::store::arrays::text_at;

/// Labels and quarantine, in a chunk of their own after all others.
pub(super) fn side_tables(
    tables: &Tables,
    files: &[String],
    options: &RecordOptions,
    taking: Taking,
    aside: &mut Vec<SetAside>,
) -> Result<Vec<RawChunk>> {
    let mut chunks = Vec::new();
    if let Some(batch) = &tables.labels {
        let labels = TableReader::new(&LABELS, batch, 2)?;
        let mut writer = BlockWriter::new(options);
        let mut out = writer.begin(options, Position::default());
        for row in 0..labels.rows {
            let weight = labels.f64("weight", row);
            if let Some(odd) = weight.filter(|weight| !Bound::Finite.holds(*weight)) {
                let message = format!("labels.weight (row {row}) {}", Bound::Finite.refusal(odd));
                if !taking.set_aside {
                    return Err(Error::Schema(message));
                }
                aside.push(SetAside { trace: None, message });
                continue;
            }
            let label = Label {
                annotator: labels.text("annotator", row).unwrap_or_default(),
                event_id: labels.text("event_id", row),
                turn: labels.u32("turn", row),
                agent: labels.text("agent", row),
                label: labels.text("label", row).unwrap_or_default(),
                weight,
            };
            out.label(labels.text("trace_id", row).unwrap_or_default(), &label);
        }
        chunks.push(writer.finish(vec![Segment::of_counts(0, Vec::new())])?);
    }
    if let Some(batch) = &tables.quarantine {
        let rows = TableReader::new(&QUARANTINE, batch, 5)?;
        let sources: HashMap<&str, usize> = files.iter().enumerate().map(|(i, f)| (f.as_str(), i)).collect();
        let mut rejects: BTreeMap<usize, Vec<QuarantineRow>> = BTreeMap::new();
        for row in 0..rows.rows {
            let source = rows.text("file", row).and_then(|f| sources.get(f).copied()).unwrap_or(0);
            rejects.entry(source).or_default().push(quarantine_row(&rows, row)?);
        }
        let mut writer = BlockWriter::new(options);
        let mut segments = Vec::with_capacity(rejects.len());
        for (source, rows) in rejects {
            let (index, absolute_lines) = (u64::MAX - 1, true);
            let (records, quarantined) = (rows.len() as u64, rows.len());
            segments.push(Segment {
                source,
                index,
                absolute_lines,
                records,
                quarantined,
                ..Segment::default()
            });
            writer.quarantine.extend(rows);
        }
        chunks.push(writer.finish(segments)?);
    }
    Ok(chunks)
}

fn quarantine_row(rows: &TableReader<'_>, row: usize) -> Result<QuarantineRow> {
    let text = |column| printable(rows.text(column, row).unwrap_or_default()).into_owned();
    let code = rows.word("code", row, |w| RejectCode::ALL.iter().copied().find(|c| c.as_str() == w))?;
    Ok(QuarantineRow {
        position: Position {
            line: rows.u64("line", row).unwrap_or(0),
            offset: rows.u64("offset", row).unwrap_or(0),
            length: rows.u64("length", row).unwrap_or(0),
        },
        reject: Reject::new(
            code.unwrap_or(RejectCode::JsonSyntax),
            rows.text("path", row).unwrap_or_default(),
            text("message"),
        ),
        importer: Cow::Owned(rows.text("importer", row).unwrap_or_default().to_owned()),
        excerpt: text("excerpt"),
    })
}

/// What became of records, a segment for each file; those of no file in one behind all.
pub(super) fn counted(rows: &TableReader<'_>, files: &[String], options: &RecordOptions) -> Result<RawChunk> {
    let sources: HashMap<&str, usize> = files.iter().enumerate().map(|(i, f)| (f.as_str(), i)).collect();
    let mut tallies: Vec<Vec<Tally>> = vec![Vec::new(); files.len() + 1];
    let mut total = 0_u64;
    for row in 0..rows.rows {
        let source = rows.text("file", row).and_then(|f| sources.get(f).copied()).unwrap_or(files.len());
        let status = rows.word("status", row, RecordStatus::parse)?;
        let count = rows.u64("count", row).unwrap_or(0);
        total = total.checked_add(count).filter(|total| i64::try_from(*total).is_ok()).ok_or_else(|| {
            Error::Schema(format!(
                "record_counts.count (row {row}) is {count}, expected counts that add up to at most {}",
                i64::MAX
            ))
        })?;
        tallies[source].push(Tally {
            importer: Cow::Owned(rows.text("importer", row).unwrap_or_default().to_owned()),
            status: status.unwrap_or(RecordStatus::Used),
            kind: rows.text("kind", row).map(Into::into),
            count,
        });
    }
    let tallies = tallies.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
    let segments = tallies.map(|(source, rows)| Segment::of_counts(source, rows));
    BlockWriter::new(options).finish(segments.collect())
}

/// Files of rejects and counts in order of appearance; one name at least, for chunks that are of no file.
pub(super) fn files_of(tables: &Tables) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut files: Vec<String> = Vec::new();
    let side = tables.record_counts.iter().chain(&tables.quarantine);
    for column in side.filter_map(|table| table.column_by_name("file")) {
        for file in (0..column.len()).filter_map(|row| text_at(column, row)) {
            if seen.insert(file) {
                files.push(file.to_owned());
            }
        }
    }
    if files.is_empty() {
        files.push(String::new());
    }
    files
}
