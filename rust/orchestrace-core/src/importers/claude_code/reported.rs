//! What an agent in the background had answered when its end was told, by the notice and not by its own lines: these may
//! have been written later, or not at all.

use sha2::{Digest, Sha256};

use super::super::recording::{Agent, hash};
use super::record::{Assistant, Block, LineContent};
use super::session::{By, Last, Returned, Running, Teller};

impl Teller<'_> {
    /// What notices say that an agent answered, in order of time.
    pub(super) fn notices(&self, agent: Agent) -> Vec<Returned> {
        let returned = self.returned.get(&agent).map_or(&[][..], Vec::as_slice);
        let is_notice = |back: &&Returned| back.by != By::Result && back.is_said && back.time.is_some();
        let mut notices: Vec<Returned> = returned.iter().filter(is_notice).copied().collect();
        notices.sort_by_key(|back| back.time);
        notices
    }

    /// A notice comes before the next lines of its agent. If the agent had not answered, its answer is what those lines say
    /// later, if that is the same, and then was said by now; else what the notice says.
    pub(super) fn had(&mut self, agent: Agent, notice: &Returned, next: &[u32], running: &mut Running) {
        if running.open.is_empty() {
            return;
        }
        self.heard.insert(agent, notice.wakes);
        if running.is_closed() || running.last == Last::Answer || running.answer.is_some() {
            return;
        }
        let Some(time) = notice.time else { return };
        if let Some(response) = self.says(next, notice) {
            running.heard_by.insert(response, time);
            return;
        }
        self.answer(agent, notice, ":message", true);
        running.last = Last::Answer;
    }

    /// The response that the next lines are of, if its text is what a notice says.
    fn says(&self, next: &[u32], notice: &Returned) -> Option<u32> {
        let lines = next.iter().map(|number| &self.records.lines[*number as usize].content);
        let mut assistants = lines.map_while(|content| match content {
            LineContent::Assistant(assistant) => Some(assistant),
            _ => None,
        });
        let first: &Assistant = assistants.next()?;
        let rest = assistants.take_while(|assistant| assistant.response == first.response);
        let mut text = String::new();
        for assistant in std::iter::once(first).chain(rest) {
            for block in self.records.blocks(assistant.blocks) {
                if let Block::Text(part) = block {
                    text.push_str(self.recording.read(*part));
                }
            }
        }
        let hash_of_text: [u8; 32] = Sha256::digest(&text).into();
        (hash_of_text == notice.content || hash(text.trim()) == notice.content).then_some(first.response)
    }
}
