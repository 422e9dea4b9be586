//! What other recordings of a run state that is not in the one that is used. What holds for the whole, its price, its
//! rewards and its answer, goes with the one that is used; of responses that it lacks only the number is told, because
//! nobody knows where among its events they belong.

use std::collections::BTreeSet;

use super::{Act, Agent, Hash, Party, Recording, Saying, Text};
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::hex::hex;
use crate::schema::MeasureKind;

/// Bytes of a path that a finding shows.
const SHOWN: usize = 48;

/// A path as findings show it: its end, where it is long.
pub(crate) fn shown_path(path: &str) -> String {
    let from = path.len().saturating_sub(SHOWN);
    let from = (from..path.len()).find(|at| path.is_char_boundary(*at)).unwrap_or(0);
    if from == 0 { format!("'{path}'") } else { format!("'…{}'", &path[from..]) }
}

/// Says which recording of a run is used, and what the others, one after another, alone state.
pub(crate) fn set_aside<'a>(used: &str, aside: impl Iterator<Item = (&'a str, Vec<String>)>) -> String {
    let mut message = format!("{used} is used, since it records more; set aside");
    for (at, (what, alone)) in aside.enumerate() {
        let and = if at > 0 { " and" } else { "" };
        message.extend([and, " is ", what]);
        if !alone.is_empty() {
            message.extend([", which alone states ", &alone.join(", ")]);
        }
    }
    message
}

/// The recordings of a run that are set aside for one.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// What the one that is used is, and where, and its format.
    pub used: String,
    pub format: &'static str,
    pub aside: Vec<Stated>,
}

/// What a recording states of its run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stated {
    /// What it is, and where; and its format, within which ids of responses mean the same.
    pub what: String,
    pub format: &'static str,
    /// Whether it is of the same sessions as the one that is used.
    pub is_same: bool,
    /// Responses with an id, and their tokens; and how many there are at all.
    pub responses: Vec<(String, i64)>,
    pub n_responses: usize,
    pub tokens: i64,
    pub cost_usd: Option<f64>,
    pub rewards: Vec<(String, f64)>,
    /// The last text of the agent that was asked, if it waits after it, and the response that it is of.
    pub answer: Option<(String, Hash)>,
    /// What stopped the run; empty if nothing is said to have done so.
    pub stopped_by: String,
}

impl Recording {
    /// Adds what is known of the run beside the recording: by a file with its result, by other recordings of it. Where it
    /// is itself another recording of a run, this says what it states.
    pub(crate) fn beside(&mut self, items: &TraceItems<'_>) {
        self.result_of_run(items.run_result());
        if let Some(stated) = items.stated() {
            stated.replace(self.states());
        }
        let Some(beside) = items.beside() else { return };
        let alone =
            beside.aside.iter().map(|aside| (&*aside.what, self.takes(aside, aside.format == beside.format)));
        let message = set_aside(&beside.used, alone);
        self.finding(FindingCode::TraceSetAside, None, message);
    }

    /// What it states of its run.
    fn states(&self) -> Stated {
        let mut stated = Stated::default();
        for entry in &self.entries {
            if let Act::Response(response) = &entry.act {
                let tokens = response.usage.total().unwrap_or(0);
                stated.n_responses += 1;
                stated.tokens = stated.tokens.saturating_add(tokens);
                if !response.id.is_none() {
                    stated.responses.push((self.read(response.id).to_owned(), tokens));
                }
                if let Some(cost) = response.usage.cost_usd {
                    *stated.cost_usd.get_or_insert(0.0) += cost;
                }
            }
        }
        for (kind, name, value) in &self.measures {
            match (kind, self.read(*name)) {
                (MeasureKind::Cost, "cost_usd") => stated.cost_usd = Some(*value),
                (MeasureKind::Cost, "tokens") => stated.tokens = *value as i64,
                (MeasureKind::Cost, "tokens_inherited") => {
                    stated.tokens = stated.tokens.saturating_add(*value as i64);
                }
                (MeasureKind::Reward, name) => stated.rewards.push((name.to_owned(), *value)),
                _ => {}
            }
        }
        self.read(self.stopped_by).clone_into(&mut stated.stopped_by);
        stated.answer = self.root().filter(|root| !self.agents[root.0 as usize].open).and_then(|root| {
            let (of, content) = self.last_text(root)?;
            Some((self.read(of).to_owned(), content?))
        });
        stated
    }

    /// The first agent that nobody asked.
    fn root(&self) -> Option<Agent> {
        let is_root = |agent: &Agent| {
            let info = self.agents[agent.0 as usize];
            info.parent.is_none() && !info.unasked && info.outside.is_none()
        };
        self.entries.iter().map(|entry| entry.agent).filter(is_root).min()
    }

    /// The last text of an agent that may be its answer, and the id of the response that it is of.
    fn last_text(&self, agent: Agent) -> Option<(Text, Option<Hash>)> {
        self.entries.iter().rev().filter(|entry| entry.agent == agent).find_map(|entry| match &entry.act {
            Act::Saying { saying, of } if !saying.aside && matches!(saying.to, None | Some(Party::User)) => {
                let of = of.and_then(|of| match &self.entries[of.0 as usize].act {
                    Act::Response(response) => Some(response.id),
                    _ => None,
                });
                Some((of.unwrap_or_default(), saying.content))
            }
            _ => None,
        })
    }

    /// The id of the last response of an agent.
    fn last_response(&self, agent: Agent) -> Option<&str> {
        self.entries.iter().rev().filter(|entry| entry.agent == agent).find_map(|entry| match &entry.act {
            Act::Response(response) if !response.helps => Some(self.read(response.id)),
            _ => None,
        })
    }

    /// Takes what another recording alone states; names each thing, with what becomes of it. `named` says whether both
    /// call a response the same.
    fn takes(&mut self, aside: &Stated, named: bool) -> Vec<String> {
        let stated = self.states();
        let mut alone = Vec::new();
        if !aside.is_same {
            if let Some(cost) = aside.cost_usd {
                alone.push(format!("a cost of {cost} USD of several sessions (not kept)"));
            }
            return alone;
        }
        match (aside.cost_usd, stated.cost_usd) {
            (Some(cost), None) => {
                self.measure(MeasureKind::Cost, "cost_usd", cost);
                alone.push(format!("a cost of {cost} USD (kept)"));
            }
            (Some(cost), Some(price)) if (cost - price).abs() > 1e-9 * price.abs() => {
                let message =
                    format!("{} says {cost} USD, the recording {price} USD, which is used", aside.what);
                self.finding(FindingCode::UsageConflict, None, message);
            }
            _ => {}
        }
        for (name, reward) in &aside.rewards {
            if stated.rewards.iter().all(|(channel, _)| channel != name) {
                self.measure(MeasureKind::Reward, name, *reward);
                alone.push(format!("a reward '{name}' of {reward} (kept)"));
            }
        }
        let ids: BTreeSet<&str> = stated.responses.iter().map(|(id, _)| id.as_str()).collect();
        let lacking = aside.responses.iter().filter(|(id, _)| !ids.contains(id.as_str()));
        let (mut n, mut tokens) =
            lacking.fold((0, 0_i64), |(n, sum), (_, t)| (n + 1, sum.saturating_add(*t)));
        if !named {
            // Then it is only known how many there are.
            n = aside.n_responses.saturating_sub(stated.n_responses);
            tokens = aside.tokens.saturating_sub(stated.tokens).max(0);
        }
        if n > 0 {
            let lacking_in_words = format!("{n} of {} responses, of {tokens} tokens", aside.n_responses);
            alone.push(format!("{lacking_in_words} (in no sum)"));
            self.trace.partial = true;
            let message = format!("recorded tokens are too low; {} alone has {lacking_in_words}", aside.what);
            self.finding(FindingCode::UsageIncomplete, None, message);
        }
        let is_open = stated.answer.is_none() && stated.stopped_by.is_empty();
        if !aside.stopped_by.is_empty() && is_open {
            self.stopped_by(&aside.stopped_by);
            alone.push(format!("that it was stopped by {} (kept)", aside.stopped_by));
        }
        if let (Some((of, content)), Some(root)) = (&aside.answer, self.root())
            && stated.answer.as_ref().is_none_or(|(_, hash_of_answer)| hash_of_answer != content)
        {
            let is_after = if named {
                let is_untold = self.last_text(root).is_none_or(|(text_of, _)| self.read(text_of) != of);
                !ids.contains(of.as_str()) || (self.last_response(root) == Some(of) && is_untold)
            } else {
                stated.answer.is_none() && aside.n_responses >= stated.n_responses
            };
            if is_after {
                let stem = if of.is_empty() { "answer" } else { of };
                alone.push(self.takes_answer(root, stem, *content));
            }
        }
        alone
    }

    /// Takes the answer of an agent that another recording alone has, and names it.
    pub(crate) fn takes_answer(&mut self, agent: Agent, stem: &str, content: Hash) -> String {
        let id = self.text(&[stem, ":return"].concat());
        let extras = self.extra(Text::default(), "x_partial", "true");
        let last = self.entries.iter().rev().find(|entry| entry.agent == agent).map_or(0, |e| e.item);
        self.made_of(last);
        self.lone_saying(agent, Saying { id, content: Some(content), extras, ..Saying::default() });
        self.agents[agent.0 as usize].open = false;
        self.trace.partial = true;
        format!("the answer sha256:{}… (kept)", &hex(&content)[..8])
    }
}
