//! What the calls and notices of a parent bring of its children's answers. An agent may answer more than once: the last
//! answer is its return, those before it are messages to whoever received them (R4).

use hashbrown::HashMap;

use super::order::{Order, time_of};
use super::plan::{NONE, Plan};
use super::{Act, Agent, Call, Does, Party, Recording, Saying};

/// What a result or a delivery brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brought {
    /// The answer before the last: a saying.
    Earlier(u32),
    /// An answer before the last that only this result records.
    Unrecorded,
    /// What was brought before, or no answer.
    Nothing,
}

/// What is brought otherwise than as the return of a child; empty where every agent answers once.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By the result or delivery.
    pub brought: HashMap<u32, Brought>,
    /// Who receives each answer before the last, by the saying.
    pub receivers: HashMap<u32, Agent>,
}

/// A place where an answer reaches a parent.
#[derive(Debug, Clone, Copy)]
struct Report {
    /// The result or delivery.
    entry: u32,
    parent: Agent,
    is_result: bool,
    /// Its place in the order of the recording.
    at: usize,
}

/// The child whose answer an entry brings.
pub(super) fn child_of(recording: &Recording, plan: &Plan, e: u32) -> Option<Agent> {
    match &recording.entries[e as usize].act {
        Act::Delivery { child, .. } => Some(*child),
        Act::Result(result) if !result.launched => {
            match recording.entries.get(plan.answers[e as usize] as usize)?.act {
                Act::Call { call: Call { does: Does::Spawns(child), .. }, .. } => Some(child),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Answers {
    /// Which answer each result and delivery brings, once the last texts are known; also whether some brings the last.
    pub(super) fn of(recording: &Recording, order: &Order, plan: &mut Plan) -> Self {
        let mut reports: HashMap<u32, Vec<Report>> = HashMap::new();
        for (at, &e) in order.entries.iter().enumerate() {
            if let Some(child) = child_of(recording, plan, e) {
                let entry = &recording.entries[e as usize];
                let is_result = matches!(entry.act, Act::Result(_));
                let report = Report { entry: e, parent: entry.agent, is_result, at };
                reports.entry(child.0).or_default().push(report);
            }
        }
        let mut answers = Self::default();
        if reports.is_empty() {
            return answers;
        }
        let texts = texts(recording, order, plan, &reports);
        let woken = woken(recording, order, plan);
        for (child, reports) in reports {
            let texts_of_child = texts.get(&child).map_or(&[][..], Vec::as_slice);
            settle(recording, order, plan, texts_of_child, &reports, (child, woken.get(&child).copied()));
            plan.told[child as usize] =
                answers.match_up(recording, order, plan, child, texts_of_child, &reports);
        }
        answers
    }

    /// Whether one of the reports brings the last answer of a child.
    fn match_up(
        &mut self,
        recording: &Recording,
        order: &Order,
        plan: &Plan,
        child: u32,
        said: &[(u32, u32)],
        reports: &[Report],
    ) -> bool {
        let is_open = recording.agents[child as usize].open && !plan.settled[child as usize];
        let last = Some(plan.last_text[child as usize]).filter(|text| *text != NONE && !is_open);
        let texts: Vec<Option<u32>> =
            reports.iter().map(|report| report.brings(recording, order, said)).collect();
        let is_late = |report: &Report| !report.is_result && report.time(recording).is_some();
        if texts.iter().all(Option::is_none) && !said.is_empty() && order.timed && reports.iter().all(is_late)
        {
            // By its clock the child said all it said after it was told of.
            self.brought.extend(reports.iter().map(|report| (report.entry, Brought::Nothing)));
            return false;
        }
        if texts.iter().all(Option::is_none) {
            // Nothing says which is which: the answer is brought by each, or is what the last result records.
            let silent = plan.last_text[child as usize] == NONE;
            let results = reports.iter().filter(|report| report.is_result);
            let last = results.clone().next_back().map(|report| report.entry);
            for report in results.filter(|report| silent && Some(report.entry) != last) {
                self.brought.insert(report.entry, Brought::Unrecorded);
            }
            for report in reports.iter().filter(|report| !report.is_result).skip(1) {
                self.brought.insert(report.entry, Brought::Nothing);
            }
            return true;
        }
        let (mut known, mut is_told) = (None, false);
        for (report, text) in reports.iter().zip(texts) {
            let again = text == known;
            known = text.or(known);
            match text {
                Some(text) if Some(text) == last && (report.is_result || !again) => is_told = true,
                Some(text) if !again => {
                    self.brought.insert(report.entry, Brought::Earlier(text));
                    self.receivers.insert(text, report.parent);
                }
                _ => {
                    self.brought.insert(report.entry, Brought::Nothing);
                }
            }
        }
        is_told
    }
}

impl Report {
    fn time(&self, recording: &Recording) -> Option<i64> {
        time_of(&recording.entries[self.entry as usize])
    }

    /// What the child said last before it.
    fn brings(&self, recording: &Recording, order: &Order, texts_of_child: &[(u32, u32)]) -> Option<u32> {
        let known_time = self.time(recording)?;
        let is_before = |e: u32| order.times.get(e as usize).is_some_and(|time| *time <= known_time);
        texts_of_child.iter().rev().find(|(_, e)| is_before(*e)).map(|(text, _)| *text)
    }
}

/// The answer of a child that works in the background is what it had said when its end was told, whatever it says
/// after that, unless somebody made it work again. `child` comes with the place where it was last asked.
fn settle(
    recording: &Recording,
    order: &Order,
    plan: &mut Plan,
    said: &[(u32, u32)],
    reports: &[Report],
    (child, woken): (u32, Option<usize>),
) {
    let Some(report) = reports.last().filter(|report| !report.is_result) else { return };
    if woken.is_some_and(|woken| woken > report.at) {
        return;
    }
    if let Some(text) = report.brings(recording, order, said) {
        plan.last_text[child as usize] = text;
        plan.settled[child as usize] = true;
    }
}

/// Where each agent was last asked something, by places in the order.
fn woken(recording: &Recording, order: &Order, plan: &Plan) -> HashMap<u32, usize> {
    let mut woken = HashMap::new();
    for (at, &e) in order.entries.iter().enumerate() {
        let mut asks = |act: &Act| {
            if let Act::Call { call: Call { does, .. }, .. } = act
                && let Does::Spawns(agent) | Does::HandsOff(agent) | Does::Tells(Party::Agent(agent)) = does
            {
                woken.insert(agent.0, at);
            }
        };
        let entry = &recording.entries[e as usize];
        match &entry.act {
            Act::Response(_) => {
                let (from, to) = plan.part_of[e as usize];
                let parts = &plan.parts[from as usize..to as usize];
                for part in parts {
                    asks(&recording.entries[*part as usize].act);
                }
            }
            Act::Incoming(_) => drop(woken.insert(entry.agent.0, at)),
            act => asks(act),
        }
    }
    woken
}

/// The answers of each child: its texts without calls that are addressed to nobody, and the entry that has their time.
fn texts(
    recording: &Recording,
    order: &Order,
    plan: &Plan,
    reports: &HashMap<u32, Vec<Report>>,
) -> HashMap<u32, Vec<(u32, u32)>> {
    let mut texts: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
    for &e in &order.entries {
        let entry = &recording.entries[e as usize];
        let agent = entry.agent.0;
        if !reports.contains_key(&agent) {
            continue;
        }
        let text = match &entry.act {
            Act::Saying { saying, .. } => is_answer(saying).then_some(e),
            Act::Response(_) => {
                let (from, to) = plan.part_of[e as usize];
                let parts = &plan.parts[from as usize..to as usize];
                let content_of = |part: &u32| &recording.entries[*part as usize].act;
                let calls = parts.iter().any(|part| matches!(content_of(part), Act::Call { .. }));
                let mut says = parts.iter().rev().copied();
                says.find(|part| matches!(content_of(part), Act::Saying { saying, .. } if is_answer(saying)))
                    .filter(|text| !calls || *text == plan.last_text[agent as usize])
            }
            _ => None,
        };
        if let Some(text) = text {
            texts.entry(agent).or_default().push((text, e));
        }
    }
    texts
}

fn is_answer(saying: &Saying) -> bool {
    !saying.aside && saying.to.is_none()
}
