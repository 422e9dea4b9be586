//! Every importer against tables that were looked through by hand: `data/importers/<name>/input.*` is read and must
//! give exactly the rows of `<table>.json` beside it; with `mapping.json`, by that mapping. `ORCHESTRACE_GOLDEN=write` writes them anew, for a review of
//! the difference.

use std::fs;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use orchestrace_core::importers::{IMPORTERS, Mapping};
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::schema::TABLES;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/importers")
}

/// The file `input.*`, or all files below a folder of that name.
fn inputs(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_stem().is_some_and(|stem| stem == "input"))
        .collect();
    while let Some(at) = paths.iter().position(|path| path.is_dir()) {
        let below = fs::read_dir(paths.swap_remove(at)).into_iter().flatten();
        paths.extend(below.filter_map(|entry| Some(entry.ok()?.path())));
    }
    paths.sort();
    paths
}

/// A cell as JSON; null is no cell.
pub(super) fn cell(array: &dyn Array, row: usize) -> Option<Value> {
    if array.is_null(row) {
        return None;
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        return cell(dictionary.values(), dictionary.normalized_keys()[row]);
    }
    Some(match array.data_type() {
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Timestamp(..) => array.as_primitive::<TimestampNanosecondType>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::LargeList(_) => {
            let items = array.as_list::<i64>().value(row);
            (0..items.len()).map(|i| cell(&items, i).unwrap_or(Value::Null)).collect()
        }
        other => panic!("a column of type {other}"),
    })
}

/// One line a row, cells in the order of the table.
fn lines(batch: &RecordBatch) -> String {
    let rows: Vec<String> = (0..batch.num_rows())
        .map(|row| {
            let cells: Vec<String> = batch
                .schema()
                .fields()
                .iter()
                .zip(batch.columns())
                .filter_map(|(field, column)| {
                    let value = cell(column, row)?;
                    Some(format!("{}:{value}", Value::from(field.name().as_str())))
                })
                .collect();
            format!("{{{}}}", cells.join(","))
        })
        .collect();
    if rows.is_empty() { "[]\n".into() } else { format!("[\n{}\n]\n", rows.join(",\n")) }
}

#[test]
fn inputs_give_the_expected_tables() {
    let write = std::env::var("ORCHESTRACE_GOLDEN").is_ok_and(|v| v == "write");
    let mut wrong = Vec::new();
    for importer in IMPORTERS {
        let name = importer.info().name;
        let folder = root().join(name);
        let paths = inputs(&folder);
        assert!(!paths.is_empty(), "{} has no input.*", folder.display());
        // Named as they lie in their folder: where the repository lies is no part of the result.
        let named = paths.into_iter().map(|path| {
            let name = path.strip_prefix(&folder).unwrap().to_string_lossy().replace('\\', "/");
            Input::Named { name, path }
        });
        let mut options = ReadOptions::default();
        if let Ok(mapping) = fs::read_to_string(folder.join("mapping.json")) {
            options.mapping = Some(Mapping::named(&mapping, "mapping.json").unwrap());
            options.format = name.into();
        }
        let store = read(named.collect(), &options, &Run::new(Some(1)).unwrap()).unwrap();
        // Labels that others made of a data set are a format without traces.
        let labels = store.combined("labels").unwrap().num_rows();
        assert!(
            store.n_traces() + labels > 0 && store.records_quarantined() > 0,
            "{name} shows both kinds of records"
        );
        for table in TABLES {
            let rows = lines(&store.combined(table.name).unwrap());
            serde_json::from_str::<Vec<Value>>(&rows).unwrap();
            let golden = folder.join(format!("{}.json", table.name));
            if write {
                fs::write(&golden, &rows).unwrap();
            } else if fs::read_to_string(&golden).unwrap_or_default() != rows {
                wrong.push(format!("{}, found:\n{rows}", golden.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn folders_are_those_of_the_importers() {
    let mut folders: Vec<String> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let mut names: Vec<&str> = IMPORTERS.iter().map(|i| i.info().name).collect();
    folders.sort();
    names.sort_unstable();
    assert_eq!(folders, names);
}
