//! What `codex exec --json` printed of a thread, where its rollout is there: the rollout is used, with the answer and the
//! total that only the printed copy has.

use super::Stream;
use crate::error::FindingCode;
use crate::importers::Recorded;
use crate::importers::recording::{set_aside, shown_path};

impl Stream<'_, '_> {
    /// Says that the printed copy is set aside, and what it alone states.
    pub(super) fn beside_printed(&mut self) {
        let Some(printed) = self.thread.printed else { return };
        let path = shown_path(self.recording.read(printed.path));
        let source = format!("{} (codex, {path})", Recorded::Printed.words());
        let mut alone = Vec::new();
        let counted = self.running_total();
        if let Some(total) = printed.total.filter(|total| *total > counted) {
            alone.push(format!("{} tokens (in no sum)", total - counted));
            let message = format!(
                "recorded tokens are too low; {source} states {total} tokens of the thread, its rollout {counted}"
            );
            self.recording.finding(FindingCode::UsageIncomplete, self.last_response, message);
            self.recording.trace.partial = true;
        }
        if let Some(answer) = printed.answer.filter(|answer| !self.thread.says(*answer)) {
            let stem = self.id.clone();
            alone.push(self.recording.takes_answer(self.agent, &stem, answer));
        }
        let message = set_aside(Recorded::Itself.words(), std::iter::once((&*source, alone)));
        self.recording.finding(FindingCode::TraceSetAside, None, message);
    }
}
