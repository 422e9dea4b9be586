//! Files of one agent in several copies of its session: what they have in common counts once, and what one of them alone
//! has stays. No order of files and none of their names decides what becomes of them.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};

use super::KIMI;
use super::line::{Line, take_back};
use super::usage::Read;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::kind::counted_as;

/// What two lines have in common that say the same in other words: their kind, the ids in them, and their time.
type Name<'v> = (&'v str, &'v str, String, i64);

/// Puts the lines of all files of an agent together. What the session went on with in more than one way is told.
pub(super) fn join<'v>(
    items: &TraceItems<'v>,
    lines: &mut Vec<Line<'v>>,
    told: &mut Vec<(FindingCode, String)>,
) {
    let path = |line: &Line<'v>| items.as_slice()[line.item as usize].path;
    lines.sort_by_key(|line| (path(line), line.at));
    let mut files: Vec<Vec<Line<'v>>> =
        lines.chunk_by(|a, b| path(a) == path(b)).map(<[Line<'v>]>::to_vec).collect();
    for file in &mut files {
        take_back(file);
    }
    // The one that says most comes first.
    files.sort_by_cached_key(|file| {
        let texts: Vec<&str> = file.iter().map(|line| line.value.raw()).collect();
        Reverse((texts.len(), texts.iter().map(|text| text.len()).sum::<usize>(), texts))
    });
    let mut files = files.into_iter();
    let Some(first) = files.next() else { return };
    let most = first.first().map_or("", path);
    *lines = first;
    for file in files {
        let other = file.first().map_or("", path);
        let (n, n_other) = add(items, lines, &file);
        if n > 0 {
            let message = format!(
                "copies of the session went on in different ways: {n} lines of '{other}' are not in '{most}'; they count, too"
            );
            told.push((FindingCode::TraceConflict, message));
        }
        if n_other > 0 {
            let message =
                format!("'{other}' states other usage of {n_other} steps than '{most}', which counts");
            told.push((FindingCode::UsageConflict, message));
        }
    }
}

/// Adds what another file alone has; how many lines that say something, and how many steps it states other usage of.
fn add<'v>(items: &TraceItems<'v>, lines: &mut Vec<Line<'v>>, other: &[Line<'v>]) -> (usize, usize) {
    let same = matches(lines, other);
    let mut is_common = vec![false; lines.len()];
    for at in same.iter().flatten() {
        is_common[*at] = true;
    }
    let (times, other_times) = (latest(lines), latest(other));
    let mut added: Vec<(usize, Line<'v>)> = Vec::new();
    let (mut n, mut n_other, mut place, mut at) = (0, 0, 0, 0);
    while at < other.len() {
        if let Some(same) = same[at] {
            items.duplicate(other[at].item as usize);
            let usage = |line: &Line<'_>| Read::of(line.value.path(&["event", "usage"])).usage;
            n_other += usize::from(is_end(&other[at]) && usage(&other[at]) != usage(&lines[same]));
            place = place.max(same + 1);
            at += 1;
            continue;
        }
        let end = end_of_unit(other, at, |line| same[line].is_none());
        if end == at + 1 && !says(&other[at]) {
            items.ignored(other[at].item as usize, &counted_as(KIMI, other[at].kind()));
            at = end;
            continue;
        }
        // Of what both went on with, what was first comes first.
        while place < lines.len() && !is_common[place] && times[place] <= other_times[at] {
            place = end_of_unit(lines, place, |line| !is_common[line]);
        }
        n += other[at..end].iter().filter(|line| says(line)).count();
        added.extend(other[at..end].iter().map(|line| (place, *line)));
        at = end;
    }
    let mut places: HashSet<(u64, u32)> = lines.iter().map(|line| line.at).collect();
    let mut all = Vec::with_capacity(lines.len() + added.len());
    let mut rest = 0;
    for (place, mut line) in added {
        all.extend_from_slice(&lines[rest..place]);
        rest = place;
        // Events are known by the place of their line.
        while !places.insert(line.at) {
            line.at.1 += 1;
        }
        all.push(line);
    }
    all.extend_from_slice(&lines[rest..]);
    *lines = all;
    (n, n_other)
}

/// For each line of another file the one that says the same: with equal text, else with the name of it.
fn matches(lines: &[Line<'_>], other: &[Line<'_>]) -> Vec<Option<usize>> {
    let mut of_text: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        of_text.entry(line.value.raw()).or_default().push_back(at);
    }
    let by_text = |line: &Line<'_>| of_text.get_mut(line.value.raw())?.pop_front();
    let mut same: Vec<Option<usize>> = other.iter().map(by_text).collect();
    if same.iter().all(Option::is_some) {
        return same;
    }
    let mut taken: HashSet<usize> = same.iter().flatten().copied().collect();
    let mut of_name: HashMap<Name<'_>, VecDeque<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| !taken.contains(at)) {
        if let Some(name) = name(line) {
            of_name.entry(name).or_default().push_back(at);
        }
    }
    for at in 0..other.len() {
        if same[at].is_some() {
            continue;
        }
        let by_name = name(&other[at]).and_then(|name| {
            let list = of_name.get_mut(&name)?;
            std::iter::from_fn(|| list.pop_front()).find(|at| !taken.contains(at))
        });
        // A step is paid once, whatever a copy says of it.
        let is_paid = |line: &Line<'_>| line.kind() == "usage.record";
        let of_step = || {
            let end = at.checked_sub(1).filter(|end| is_end(&other[*end]))?;
            same[end]
                .map(|end| end + 1)
                .filter(|at| lines.get(*at).is_some_and(is_paid) && !taken.contains(at))
        };
        same[at] = by_name.or_else(|| if is_paid(&other[at]) { of_step() } else { None });
        taken.extend(same[at]);
    }
    same
}

fn name<'v>(line: &Line<'v>) -> Option<Name<'v>> {
    let (kind, event) = line.event().unwrap_or(("", line.value));
    let ids: Vec<&str> =
        ["uuid", "stepUuid", "toolCallId"].iter().filter_map(|key| event.get(key).str()).collect();
    let mut words =
        [ids.join(" "), event.path(&["part", "type"]).str().unwrap_or_default().to_owned()].join(" ");
    // Two requests may have been paid at one time.
    if line.kind() == "usage.record" {
        for key in ["inputOther", "inputCacheRead", "inputCacheCreation", "output"] {
            words += " ";
            words += event.path(&["usage", key]).raw();
        }
    }
    Some((line.kind(), kind, words, line.time?))
}

fn is_end(line: &Line<'_>) -> bool {
    line.event().is_some_and(|(kind, _)| kind == "step.end")
}

/// Whether anybody hears of a line.
fn says(line: &Line<'_>) -> bool {
    matches!(
        line.kind(),
        "turn.prompt"
            | "turn.steer"
            | "turn.cancel"
            | "context.append_message"
            | "context.append_loop_event"
            | "usage.record"
            | "permission.record_approval_result"
            | "context.apply_compaction"
            | "context.clear"
    )
}

/// Where what begins at a line ends: a turn stays together, and a step with what it is paid for.
fn end_of_unit(lines: &[Line<'_>], begin: usize, is_alone: impl Fn(usize) -> bool) -> usize {
    let is_prompt = |at: usize| lines[at].kind() == "turn.prompt";
    if is_prompt(begin) {
        let mut rest = begin + 1..lines.len();
        return rest.find(|at| is_prompt(*at) || !is_alone(*at)).unwrap_or(lines.len());
    }
    let of_step = |at: usize| lines[at].event().map(|(kind, _)| kind);
    if of_step(begin) != Some("step.begin") {
        return begin + 1;
    }
    let mut end = begin + 1;
    while end < lines.len() && is_alone(end) {
        match of_step(end) {
            Some("step.begin") => break,
            Some("step.end") => {
                let is_paid = |at: usize| lines.get(at).is_some_and(|line| line.kind() == "usage.record");
                return if is_paid(end + 1) && is_alone(end + 1) { end + 2 } else { end + 1 };
            }
            None if matches!(lines[end].kind(), "turn.prompt" | "turn.ended") => break,
            _ => end += 1,
        }
    }
    end
}

/// The latest time so far at each line.
fn latest(lines: &[Line<'_>]) -> Vec<Option<i64>> {
    let mut latest = None;
    let mut at = |line: &Line<'_>| {
        latest = line.time.max(latest);
        latest
    };
    lines.iter().map(&mut at).collect()
}
