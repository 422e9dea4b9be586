//! Lists: tables, codes, formats, methods, presets.

use orchestrace_core::credit::context::DECISIONS;
use orchestrace_core::credit::{METHODS, Param};
use orchestrace_core::error::{self, FindingCode, IgnoredCode, Reason, RejectCode};
use orchestrace_core::generate;
use orchestrace_core::graph::TYPE_WEIGHTS;
use orchestrace_core::importers::IMPORTERS;
use orchestrace_core::schema::{CREDITS, Column, Kind, QUANTITIES, REPLAYS, TABLES, TIERS, UNITS};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

type ColumnRow = (&'static str, &'static str, bool, Option<Vec<&'static str>>);

fn column(column: &Column) -> ColumnRow {
    let kind = match column.kind {
        Kind::U32 => "u32",
        Kind::U64 => "u64",
        Kind::I64 => "i64",
        Kind::F64 => "f64",
        Kind::Bool => "bool",
        Kind::Text => "text",
        Kind::Name(_) => "name",
        Kind::Word(_) => "word",
        Kind::Time => "time",
        Kind::F64List => "f64_list",
    };
    let words = if let Kind::Word(words) = column.kind { Some(words.to_vec()) } else { None };
    (column.name, kind, column.nullable, words)
}

/// Tables with their columns: name, kind, nullable, words of a closed vocabulary. The last two are
/// `replays` and `credits`, whole, which are no tables of a corpus.
#[pyfunction]
pub(crate) fn tables() -> Vec<(&'static str, Vec<ColumnRow>)> {
    let mut tables: Vec<_> =
        TABLES.iter().chain([&&REPLAYS]).map(|t| (t.name, t.columns.iter().map(column).collect())).collect();
    let varying = |name: &str| CREDITS.columns.iter().find(|c| c.name == name).map(column);
    let credits = [
        varying("trace"),
        Some(("unit", "word", false, Some(UNITS.to_vec()))),
        varying("unit_id"),
        varying("trace_id"),
        varying("seq"),
        varying("credit"),
        varying("stderr"),
        varying("n_samples"),
        Some(("method", "name", false, None)),
        Some(("quantity", "word", false, Some(QUANTITIES.to_vec()))),
        Some(("reward", "name", false, None)),
        Some(("tier", "word", true, Some(TIERS.to_vec()))),
        varying("residual"),
        varying("reason"),
        Some(("params", "name", false, None)),
    ];
    tables.push(("credits", credits.into_iter().flatten().collect()));
    tables
}

/// Level, code, severity, meaning.
type Code = (&'static str, &'static str, &'static str, &'static str);

/// All codes.
#[pyfunction]
pub(crate) fn codes() -> Vec<Code> {
    let rejects = RejectCode::ALL.iter().map(|c| ("reject", c.as_str(), "error", c.meaning()));
    let findings = FindingCode::ALL.iter().map(|c| ("finding", c.as_str(), c.severity(), c.meaning()));
    let reasons = Reason::ALL.iter().map(|c| ("reason", c.as_str(), "", c.meaning()));
    let ignored = IgnoredCode::ALL.iter().map(|c| ("ignored", c.as_str(), "", c.meaning()));
    rejects.chain(findings).chain(reasons).chain(ignored).collect()
}

/// Codes of entries of archives that are not read and that recordings may be lost with.
pub(crate) fn lossy_codes(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let codes = IgnoredCode::ALL.iter().filter(|c| c.may_lose()).map(|c| c.as_str());
    PyTuple::new(py, codes.collect::<Vec<_>>())
}

/// The formats.
#[pyfunction]
pub(crate) fn importers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    IMPORTERS
        .iter()
        .map(|importer| {
            let info = importer.info();
            let row = PyDict::new(py);
            row.set_item("name", info.name)?;
            row.set_item("summary", info.summary)?;
            row.set_item("evidence", info.evidence.to_vec())?;
            row.set_item("suffixes", info.suffixes.to_vec())?;
            Ok(row)
        })
        .collect()
}

/// The presets of the generator: name and summary.
#[pyfunction]
pub(crate) fn presets() -> Vec<(&'static str, &'static str)> {
    generate::presets().iter().map(|p| (p.name, p.summary)).collect()
}

/// The known word nearest to a misspelt one.
#[pyfunction]
pub(crate) fn nearest(word: &str, known: Vec<String>) -> Option<String> {
    error::nearest(word, known.iter().map(String::as_str)).map(str::to_owned)
}

/// The credit methods.
#[pyfunction]
pub(crate) fn methods(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    METHODS
        .iter()
        .map(|method| {
            let info = method.info();
            let row = PyDict::new(py);
            row.set_item("name", info.name)?;
            row.set_item("summary", info.summary)?;
            row.set_item("quantity", info.quantity.as_str())?;
            row.set_item("scope", info.scope.as_str())?;
            row.set_item("tier", info.tier.map(orchestrace_core::schema::Tier::as_str))?;
            row.set_item("units", info.units.iter().map(|u| u.as_str()).collect::<Vec<_>>())?;
            row.set_item("axioms", info.axioms.iter().map(|a| a.as_str()).collect::<Vec<_>>())?;
            row.set_item("reference", info.reference)?;
            row.set_item("params", params_of(py, info.params)?)?;
            Ok(row)
        })
        .collect()
}

/// Parameters as rows: name, what values they take, default, one line.
pub(crate) fn params_of<'py>(py: Python<'py>, params: &[Param]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let row_of = |param: &Param| {
        let item = PyDict::new(py);
        item.set_item("name", param.name)?;
        item.set_item("kind", param.expected())?;
        item.set_item("default", param.default.to_json())?;
        item.set_item("doc", param.doc)?;
        Ok(item)
    };
    params.iter().map(row_of).collect()
}

/// Types of events that are choices of their owner.
pub(crate) fn decisions(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, DECISIONS.iter().map(|kind| kind.as_str()))
}

/// Weight of each edge type that no caller gives others, in the order of the schema.
pub(crate) fn type_weights(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let weights = PyDict::new(py);
    for (name, weight) in orchestrace_core::schema::EDGE_TYPES.iter().zip(TYPE_WEIGHTS) {
        weights.set_item(name, weight)?;
    }
    Ok(weights)
}
