//! What other models did for a response: an adviser that was asked, a model that stood in. Each is a response of its own,
//! and comes before what the response made of it.

use hashbrown::HashMap;

use super::super::recording::{Agent, Entry, Response, Text, Usage};
use super::record::{Assistant, Block, Code, LineContent, Side};
use super::session::{Running, Teller, join};

/// What other models did for a response that is still to be written.
#[derive(Default)]
pub(super) struct Helped {
    sides: Vec<(Code, Text, Usage)>,
    /// Whether something comes back within the response: the help comes before it.
    is_back: bool,
}

impl Teller<'_> {
    /// What other models did for the responses of a stream. Lines of one response repeat it.
    pub(super) fn helped(&self, lines: &[u32]) -> HashMap<Code, Helped> {
        let mut helped: HashMap<Code, Helped> = HashMap::new();
        let assistants =
            lines.iter().filter_map(|number| match &self.records.lines[*number as usize].content {
                LineContent::Assistant(assistant) => Some(assistant),
                _ => None,
            });
        for assistant in assistants.clone() {
            let sides = self.records.blocks(assistant.blocks).iter().filter_map(|block| match block {
                Block::Side(side) => Some(&**side),
                _ => None,
            });
            for (at, Side { kind, model, usage }) in sides.enumerate() {
                let sides_of_response = &mut helped.entry(assistant.response).or_default().sides;
                match sides_of_response.get_mut(at) {
                    Some((.., sum)) => join(sum, usage),
                    None => sides_of_response.push((*kind, *model, *usage)),
                }
            }
        }
        if !helped.is_empty() {
            for assistant in assistants {
                let blocks = self.records.blocks(assistant.blocks);
                if let Some(helped) = helped.get_mut(&assistant.response) {
                    helped.is_back |= blocks.iter().any(|block| matches!(block, Block::Outcome(_)));
                }
            }
        }
        helped
    }

    /// Writes what other models did for a response: responses of their own, before what it made of them. That is what comes
    /// back within it (`at_result`), else the response as a whole. Gives the last of them.
    pub(super) fn help(
        &mut self,
        agent: Agent,
        assistant: &Assistant,
        (time, extras): (Option<i64>, Text),
        running: &mut Running,
        at_result: bool,
    ) -> Option<Entry> {
        let of = &assistant.response;
        let is_here = running.helped.get(of).is_some_and(|help| help.is_back == at_result);
        let helped = is_here.then(|| running.helped.remove(of)).flatten()?;
        let mut last = None;
        for (at, (kind, model, usage)) in helped.sides.into_iter().enumerate() {
            let kind = self.records.names.name(kind);
            let id = [self.records.names.name(assistant.id), ":", kind, &at.to_string()].concat();
            let extras = self.recording.extra_text(extras, "x_iteration", kind);
            let id = self.recording.text(&id);
            let mut usage = usage;
            if assistant.counts_in != 0 {
                let tokens = std::mem::take(&mut usage).total().unwrap_or(0);
                let (_, sum) = self.inherited.entry(assistant.counts_in).or_default();
                *sum = sum.saturating_add(tokens);
            }
            let response =
                Response { id, time, model, usage, extras, helps: !at_result, ..Response::default() };
            last = Some(self.recording.response(agent, response));
        }
        last
    }
}
