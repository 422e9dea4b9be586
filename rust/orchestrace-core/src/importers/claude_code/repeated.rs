//! Members that a line repeats from the line before it: session, working directory, version. They are half of the
//! members of a line, and are read once for all lines that repeat them.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::RangeInclusive;

use crate::importers::LeftOut;
use crate::json::{Cursor, Limits};

/// Bytes of what is worth to be remembered: longer ones repeat no more than a few of these do.
const WORTH: RangeInclusive<usize> = 64..=4096;

/// A row of whole members, with the comma behind each, and what was read of them.
#[derive(Debug, Default)]
struct Row {
    text: String,
    limits: Option<Limits>,
    /// Where in it are the session and the agent.
    session: Option<(usize, usize)>,
    agent: Option<(usize, usize)>,
    /// Where in it are members that no rule reads.
    unread: Vec<(usize, usize)>,
}

thread_local! {
    /// What it holds changes nothing but how long reading takes.
    static LAST: RefCell<Row> = RefCell::default();
}

/// The session and the agent of a line, as far as a row has them.
pub(super) type Ids<'a> = [Option<Cow<'a, str>>; 2];

/// Goes past the row of a line before, if it stands here.
pub(super) fn take<'a>(cursor: &mut Cursor<'a>, limits: Limits, unread: &mut LeftOut) -> Option<Ids<'a>> {
    LAST.with_borrow(|row| {
        let start = cursor.pos();
        if row.limits != Some(limits) || !cursor.take_members(&row.text) {
            return None;
        }
        row.unread.iter().for_each(|(from, to)| unread.drop((start + from, start + to)));
        let text = |(from, to): (usize, usize)| Cow::Borrowed(cursor.slice(start + from, start + to));
        Some([row.session.map(text), row.agent.map(text)])
    })
}

/// A row that is being read.
#[derive(Debug)]
pub(super) struct Begun {
    pub start: usize,
    /// How much was left out before it.
    pub unread: usize,
    /// Whether the session and the agent are in it.
    pub session: bool,
    pub agent: bool,
}

/// Remembers a row that ends here; whether it is worth it.
pub(super) fn remember(
    cursor: &Cursor<'_>,
    end: usize,
    begun: &Begun,
    limits: Limits,
    [session, agent]: [&Option<Cow<'_, str>>; 2],
    unread: &LeftOut,
) -> bool {
    let text = cursor.slice(begun.start, end);
    if !WORTH.contains(&text.len()) {
        return false;
    }
    let place = |is_here: bool, value: &Option<Cow<'_, str>>| match value {
        _ if !is_here => Some(None),
        Some(Cow::Borrowed(value)) => {
            let from = (value.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
            Some(Some((from, from + value.len())))
        }
        // What is no string, or has an escape, is read each time.
        _ => None,
    };
    let (Some(session), Some(agent)) = (place(begun.session, session), place(begun.agent, agent)) else {
        return false;
    };
    LAST.with_borrow_mut(|row| {
        row.text.clear();
        row.text.push_str(text);
        (row.limits, row.session, row.agent) = (Some(limits), session, agent);
        row.unread.clear();
        row.unread
            .extend(unread.since(begun.unread).map(|(from, to)| (from - begun.start, to - begun.start)));
    });
    true
}
