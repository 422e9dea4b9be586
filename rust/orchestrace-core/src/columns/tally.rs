//! Counts of the records read, by input, importer, status and kind.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::schema::RecordStatus as Status;

/// Counts of records. Every record is counted once: what was read is the sum.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tallies {
    /// By input, importer and status; the kind only of what was ignored.
    rows: BTreeMap<(usize, &'static str, u8, Box<str>), u64>,
}

/// Distinct kinds of one input and importer; what has a further one is counted as `<importer>.other`. Kinds may
/// come out of recordings.
const KINDS: usize = 64;

impl Tallies {
    pub(crate) fn add(&mut self, input: usize, importer: &'static str, status: Status, n: u64) {
        self.put(input, importer, status, "", n);
    }

    pub(crate) fn ignored(&mut self, input: usize, importer: &'static str, kind: &str, n: u64) {
        self.put(input, importer, Status::Ignored, kind, n);
    }

    fn put(&mut self, input: usize, importer: &'static str, status: Status, kind: &str, n: u64) {
        if n > 0 {
            *self.rows.entry((input, importer, status as u8, kind.into())).or_default() += n;
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (key, n) in other.rows {
            *self.rows.entry(key).or_default() += n;
        }
    }

    /// Takes the rows of all inputs: of kinds the most frequent, the others summed.
    pub(crate) fn take(&mut self) -> BTreeMap<usize, Vec<Tally>> {
        let mut out: BTreeMap<usize, Vec<Tally>> = BTreeMap::new();
        for ((input, importer, status, kind), count) in std::mem::take(&mut self.rows) {
            let kind = (!kind.is_empty()).then_some(kind);
            let status = Status::from_code(status).unwrap_or(Status::Used);
            out.entry(input).or_default().push(Tally { importer: importer.into(), status, kind, count });
        }
        for rows in out.values_mut() {
            bound(rows);
        }
        out
    }
}

fn bound(rows: &mut Vec<Tally>) {
    if rows.iter().filter(|row| row.kind.is_some()).count() <= KINDS {
        return;
    }
    let mut kinds: Vec<Tally> = rows.extract_if(.., |row| row.kind.is_some()).collect();
    kinds.sort_by(|a, b| {
        b.count.cmp(&a.count).then_with(|| (&a.importer, &a.kind).cmp(&(&b.importer, &b.kind)))
    });
    let rest = kinds.split_off(KINDS);
    rows.extend(kinds);
    for row in rest {
        let kind = format!("{}.other", row.importer);
        let same = rows.iter_mut().find(|r| r.kind.as_deref() == Some(&*kind));
        match same {
            Some(same) => same.count += row.count,
            None => rows.push(Tally { kind: Some(kind.into()), ..row }),
        }
    }
    rows.sort_by(|a, b| (&a.importer, a.status as u8, &a.kind).cmp(&(&b.importer, b.status as u8, &b.kind)));
}

/// One row of `record_counts`, of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    pub importer: Cow<'static, str>,
    pub status: Status,
    pub kind: Option<Box<str>>,
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_and_sorted() {
        let mut tallies = Tallies::default();
        tallies.ignored(1, "b", "b.y", 2);
        tallies.add(1, "b", Status::Used, 3);
        tallies.add(1, "b", Status::Duplicate, 0);
        let mut more = Tallies::default();
        more.ignored(1, "b", "b.x", 1);
        more.add(0, "a", Status::Used, 1);
        more.add(1, "b", Status::Used, 4);
        tallies.merge(more);
        let rows = tallies.take();
        assert_eq!(rows.len(), 2);
        let row = |status, kind: Option<&str>, count| Tally {
            importer: "b".into(),
            status,
            kind: kind.map(Into::into),
            count,
        };
        assert_eq!(
            rows[&1],
            [
                row(Status::Used, None, 7),
                row(Status::Ignored, Some("b.x"), 1),
                row(Status::Ignored, Some("b.y"), 2)
            ]
        );
    }

    #[test]
    fn kinds_are_bounded_and_no_record_is_lost() {
        let mut tallies = Tallies::default();
        for i in 0..1_000_u64 {
            tallies.ignored(0, "a", &format!("a.{i}"), i + 1);
        }
        let rows = tallies.take().remove(&0).unwrap();
        assert_eq!(rows.len(), KINDS + 1);
        assert_eq!(rows.iter().map(|r| r.count).sum::<u64>(), 500_500);
        assert!(rows.iter().any(|r| r.kind.as_deref() == Some("a.999")));
    }
}
