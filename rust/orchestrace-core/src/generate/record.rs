//! The record of a simulated run, before it becomes text.

use super::names::ROLES;
use super::task::Naming;
use crate::schema::{EdgeType, EventType};

/// No event, no agent.
pub(super) const NONE: u32 = u32::MAX;
/// The person outside the team, where an agent is expected.
pub(super) const USER: u32 = u32::MAX - 1;

/// One event; the number is its place in time order.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // independent facts, each of which becomes a field of its own
pub(super) struct Event {
    /// Milliseconds since the first event.
    pub(super) t: u64,
    pub(super) kind: EventType,
    /// The agent; for a result the agent that called, since tools are not agents.
    pub(super) actor: u32,
    pub(super) to: u32,
    pub(super) tool: u8,
    pub(super) trusted: Option<bool>,
    pub(super) ok: bool,
    pub(super) corrupted: bool,
    /// No corrupted event led to this one.
    pub(super) seed: bool,
    pub(super) sanitizer: bool,
    /// The generation it belongs to and its place there.
    pub(super) turn: u32,
    pub(super) place: u32,
    pub(super) duration: u32,
    pub(super) tokens_in: u32,
    pub(super) tokens_out: u32,
    /// Thousandths.
    pub(super) score: Option<u16>,
    pub(super) subtask: u32,
    pub(super) hash: u64,
    /// Bits for whatever optional fields need a value of no consequence.
    pub(super) salt: u64,
}

/// One edge between event numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) kind: EdgeType,
}

/// One agent and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Agent {
    /// Its name, as a range of [`Names`].
    pub(super) name: (u32, u32),
    pub(super) role: u8,
    /// Who gets its returns: the parent, or the agent that engaged it again.
    pub(super) boss: u32,
    pub(super) depth: u8,
    pub(super) model: u8,
    pub(super) active: bool,
    pub(super) scheduled: bool,
    /// Responses before it returns.
    pub(super) quota: u32,
    pub(super) live_children: u32,
    pub(super) open_calls: u32,
    /// Lists in the arena of mail: what the next response reads; returns not yet aggregated.
    pub(super) inbox: u32,
    pub(super) returns: u32,
    pub(super) last: u32,
    pub(super) untrusted: u32,
    /// Tokens in its context, and those of the response under way with its length in milliseconds.
    pub(super) context: u32,
    pub(super) drafting: u32,
    pub(super) latency: u32,
    /// Thousandths.
    pub(super) skill: u16,
    pub(super) subtask: u32,
}

/// Names of the agents of one trace, in one buffer.
#[derive(Debug, Default)]
pub(super) struct Names {
    text: String,
    per_role: [u32; ROLES.len()],
}

impl Names {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.per_role = [0; ROLES.len()];
    }

    /// Makes a name that no other agent of the trace has.
    pub(super) fn add(&mut self, naming: Naming, role: u8, number: usize) -> (u32, u32) {
        let start = self.text.len() as u32;
        let word = ROLES[usize::from(role)];
        let count = &mut self.per_role[usize::from(role)];
        *count += 1;
        match (naming, number) {
            (Naming::Unicode, 0) => self.text.push_str("协调者"),
            (Naming::Unicode, n) if n % 3 == 0 => self.number("研究员_", n),
            (Naming::Unicode, n) if n % 3 == 1 => self.number("агент-", n),
            (Naming::Unicode, n) => self.number("vérificateur ", n),
            (_, 0) => self.text.push_str("orchestrator"),
            (Naming::Numbered, n) => {
                self.text.push_str(word);
                self.number("_", n);
            }
            (Naming::Repeated, _) => {
                let count = *count as usize;
                self.text.push_str(word);
                if count > 1 {
                    self.number("#", count);
                }
            }
        }
        (start, self.text.len() as u32)
    }

    fn number(&mut self, before: &str, number: usize) {
        self.text.push_str(before);
        let mut places = 1;
        while number / places >= 10 {
            places *= 10;
        }
        while places > 0 {
            self.text.push(char::from(b'0' + (number / places % 10) as u8));
            places /= 10;
        }
    }

    pub(super) fn get(&self, name: (u32, u32)) -> &[u8] {
        self.text(name).as_bytes()
    }

    pub(super) fn text(&self, name: (u32, u32)) -> &str {
        &self.text[name.0 as usize..name.1 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for naming in [Naming::Numbered, Naming::Repeated, Naming::Unicode] {
            let mut names = Names::default();
            let codes = (0..300).map(|n| names.add(naming, (n % ROLES.len()) as u8, n)).collect::<Vec<_>>();
            let mut words =
                codes.iter().map(|&n| String::from_utf8(names.get(n).to_vec()).unwrap()).collect::<Vec<_>>();
            assert!(words.contains(&"executor#2".to_owned()) == (naming == Naming::Repeated));
            words.sort();
            words.dedup();
            assert_eq!(words.len(), 300);
        }
    }
}
