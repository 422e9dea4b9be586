//! What a projection leaves out changes nothing of what is kept, nor of what is accepted.

#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, StringArray};
use orchestrace_core::columns::Projection;
use orchestrace_core::columns::RecordOptions;
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::schema::EVENTS;
use orchestrace_core::store::{Store, write_jsonl};

const TABLES: [&str; 8] =
    ["traces", "events", "edges", "agents", "measures", "findings", "labels", "quarantine"];

fn trace(id: usize, events: &str, edges: &str) -> String {
    format!(
        r#"{{"trace_id":"t{id}","task_id":"k","events":[{events}],"edges":[{edges}],"rewards":{{"team":1}},"costs":{{"tokens":1,"wall_clock_s":2.5}}}}"#
    )
}

/// Good records with fields of every kind, and records with something wrong in each place that a
/// projection may skip.
fn corpus() -> String {
    let good = r#"{"id":"a","t":0.5,"type":"orchestrator_decision","agent":"lead","role":"lead","content_ref":"sha256:0123456789abcdef","tokens":7,"score":0.25,"trusted":true,"zzz":[1,2],"group_id":"g"},
        {"id":"an id of more than twelve bytes","t":1.25,"type":"spawn","agent":"lead","to":"w\u0031","role":"critic","tokens":3.0,"ok":"no","p_actions":[0.5,0.5],"state_key":"s"},
        {"id":"c","t":2,"type":"tool_call","agent":"w1","tool":"web","from":"lead","duration_s":2.25,"cost_usd":1e-3,"subtask_id":"st","turn":3},
        {"id":"d","t":1,"type":"tool_result","agent":"web","tool":"web","prefix_key":"a rather long key, of more than thirty-two bytes"}"#
        .replace('\n', " ");
    let edges = r#"{"src":"a","dst":"an id of more than twelve bytes","type":"temporal"},{"src":"c","dst":"d","type":"causal"}"#;
    let event = |rest: &str| format!(r#"{{"id":"a","t":0,"type":"message","agent":"x"{rest}}}"#);
    let mut lines = vec![trace(0, &good, edges)];
    for rest in [
        "",
        r#","role":null"#,
        r#","role":"x"#,
        r#","role":"\ud800""#,
        r#","from":3"#,
        r#","trusted":"yes""#,
        r#","tokens":-1"#,
        r#","tokens":1e999"#,
        r#","tokens":01"#,
        r#","duration_s":-2"#,
        r#","group_id":"x","group_id":"y""#,
        r#","zzz":1,"zzz":2"#,
        r#","content_ref":"a\tb""#,
        r#","state_key":"","action":"go","model":"m","value":9007199254740993"#,
    ] {
        lines.push(trace(lines.len(), &event(rest), ""));
    }
    lines.push(trace(90, &good, r#"{"src":"a","dst":"nobody","type":"temporal"}"#));
    lines.push(trace(91, &good, r#"{"src":"a","dst":"c","type":"odd"}"#));
    lines.push(trace(92, &format!("{good},{good}"), ""));
    lines.push(trace(93, &good, edges).replace(r#""agent":"lead""#, r#""agent":"""#));
    lines.push(trace(94, &good, edges).replace(r#""tokens":1,"wall"#, r#""tokens":-1,"wall"#));
    lines.push(trace(95, &good, edges).replace("\":", "\" : "));
    lines.push(trace(96, &good, edges).replace("\":", "\": ").replace(",\"", ", \""));
    lines.join("\n")
}

fn store(text: &str, projection: Projection) -> Store {
    let records = RecordOptions { projection, ..RecordOptions::default() };
    let options = ReadOptions { records, block_size: 4 << 10, ..ReadOptions::default() };
    let reader = Box::new(std::io::Cursor::new(text.to_owned()));
    let input = Input::Stream { name: "memory".into(), reader };
    read(vec![input], &options, &Run::new(Some(2)).unwrap()).unwrap()
}

/// Equal columns; codes of names may differ, the names may not.
fn same(a: &ArrayRef, b: &ArrayRef) -> bool {
    match (a.as_dictionary_opt::<UInt32Type>(), b.as_dictionary_opt::<UInt32Type>()) {
        (Some(a), Some(b)) => {
            let a = a.downcast_dict::<StringArray>().unwrap();
            let b = b.downcast_dict::<StringArray>().unwrap();
            a.into_iter().eq(b)
        }
        _ => a == b,
    }
}

#[test]
fn what_is_kept_is_what_a_whole_read_has() {
    let text = corpus();
    let full = store(&text, Projection::ALL);
    assert!(full.n_traces() >= 4 && full.records_quarantined() >= 12, "the corpus has both");
    assert!(full.combined("findings").unwrap().num_rows() > 0);
    let columns: Vec<&str> = EVENTS.columns.iter().map(|c| c.name).collect();
    let single_columns: Vec<(Vec<&str>, Vec<&str>)> =
        columns.iter().map(|c| (vec!["events"], vec![*c])).collect();
    let pairs = columns.windows(2).map(|pair| (vec!["events"], pair.to_vec()));
    let tables = TABLES.iter().map(|t| (vec![*t], vec![]));
    let others =
        [(vec!["events", "findings"], vec!["type"]), (vec!["traces", "events"], vec!["extras", "id"])];
    for (tables, columns) in single_columns.into_iter().chain(pairs).chain(tables).chain(others) {
        let chosen = (!columns.is_empty()).then_some(&columns[..]);
        let part = store(&text, Projection::new(&tables, chosen).unwrap());
        assert_eq!(part.records_read(), full.records_read());
        assert_eq!(part.n_traces(), full.n_traces());
        assert_eq!(part.n_events(), full.n_events());
        for table in TABLES {
            if !tables.contains(&table) && !["labels", "quarantine"].contains(&table) {
                assert!(part.table(table).is_err() && part.combined(table).is_err(), "{table}");
                continue;
            }
            let (part, full) = (part.combined(table).unwrap(), full.combined(table).unwrap());
            assert_eq!(part.num_rows(), full.num_rows(), "{table} of {tables:?}");
            let names = part.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
            let schema = full.schema();
            let expected = schema.fields().iter().map(|f| f.name().clone());
            let is_chosen =
                |name: &String| table != "events" || chosen.is_none_or(|c| c.contains(&name.as_str()));
            assert_eq!(names, expected.filter(is_chosen).collect::<Vec<_>>(), "{table} of {tables:?}");
            for name in &names {
                let columns = [part.column_by_name(name).unwrap(), full.column_by_name(name).unwrap()];
                assert!(same(columns[0], columns[1]), "{table}.{name} of {tables:?} {columns:?}");
            }
        }
    }
}

#[test]
fn whole_traces_are_not_made_of_parts() {
    let part = store(&corpus(), Projection::new(&["events"], Some(&["type"])).unwrap());
    assert!(part.filter(&[0]).unwrap_err().to_string().contains("without a projection"));
    let run = Run::new(Some(1)).unwrap();
    assert!(write_jsonl(&part, &mut Vec::new(), &run).is_err());
}
