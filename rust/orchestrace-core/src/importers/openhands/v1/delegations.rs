//! Calls that make agents work, and what comes back of them.

use super::events::Describing;
use super::tasks::Delegation;
use crate::importers::openhands::hash_of;
use crate::importers::openhands::ledger::Paid;
use crate::importers::openhands::stream::{Origin, Pending, Stream};
use crate::importers::recording::{Agent, Call, CallResult, Hash};
use crate::json::tree::Value;

impl<'v> Describing<'_, 'v, '_> {
    /// The agents that an action makes work, if that is what it does.
    pub(super) fn delegation(&mut self, event: Value<'v>, call: &Call) -> Option<Delegation> {
        let action = event.get("action");
        let mut calls = Vec::new();
        let mut launched = false;
        match (action.get("kind").str()?, action.get("command").str()) {
            ("TaskAction", _) => {
                let kind = action.get("subagent_type").some_str().unwrap_or("default");
                let task = action.get("resume").some_str();
                let agent = match task.and_then(|task| self.team.find(self.at, task)) {
                    Some(agent) => agent,
                    None => {
                        self.team.worker(self.at, hash_of(action.get("prompt")), (kind, kind), self.recording)
                    }
                };
                calls.push((call.id, agent, String::new()));
            }
            ("DelegateAction", Some("spawn")) => {
                launched = true;
                for (at, name) in action.get("ids").elements().enumerate() {
                    let name = name.some_str()?;
                    let role = action.get("agent_types").at(at).some_str().unwrap_or_default();
                    let agent = self.delegate(name, role);
                    calls.push((self.id_with(event, name), agent, format!("delegate:{name}")));
                }
            }
            ("DelegateAction", Some("delegate")) => {
                for (name, _) in action.get("tasks").members() {
                    let agent = match self.team.find(self.at, name) {
                        Some(agent) => agent,
                        None => self.delegate(name, ""),
                    };
                    calls.push((self.id_with(event, name), agent, format!("delegate:{name}")));
                }
            }
            _ => {}
        }
        (!calls.is_empty()).then_some(Delegation { calls, launched })
    }

    /// A delegate, whose conversation is never kept.
    pub(super) fn delegate(&mut self, name: &str, role: &str) -> Agent {
        let agent = self.team.worker(self.at, None, (name, role), self.recording);
        self.team.call(self.at, name, agent);
        agent
    }

    /// What comes back of agents: once for each of them.
    pub(super) fn returns(
        &mut self,
        event: Value<'v>,
        pending: Pending,
        delegation: &Delegation,
        content: Option<Hash>,
        ok: Option<bool>,
    ) {
        let time = self.clock.time(event);
        let task = event.path(&["observation", "task_id"]).some_str();
        for (number, (call, agent, account)) in delegation.calls.iter().enumerate() {
            let account = match task {
                Some(task) => {
                    self.team.call(self.at, task, *agent);
                    format!("task:{task}")
                }
                None => account.clone(),
            };
            if !delegation.launched {
                self.team.end_is_told(*agent);
                self.paid_by(&account, *agent, time);
            }
            let id = if number == 0 { self.id(event) } else { self.id_with(event, &number.to_string()) };
            let result = CallResult {
                call: *call,
                id,
                tool: pending.tool,
                time,
                content,
                ok,
                trusted: Some(false),
                launched: delegation.launched,
                ..CallResult::default()
            };
            self.stream.result(result, pending.asked_at, self.recording);
        }
    }

    /// Responses of an agent whose conversation was not kept, up to a time.
    pub(super) fn paid_by(&mut self, account: &str, agent: Agent, time: Option<i64>) {
        let is_due = |paid: &Paid<'_>| paid.account == account && (time.is_none() || paid.time <= time);
        let (due, later): (Vec<Paid<'v>>, _) = std::mem::take(&mut self.beside).into_iter().partition(is_due);
        self.beside = later;
        let mut stream = Stream::new(agent);
        for paid in due {
            let entry = stream.beside(&Origin::of(&paid), paid.account, self.ledger, self.recording);
            if let Some(response) = self.recording.response_mut(entry) {
                response.helps = false;
            }
        }
    }
}
