//! Responses that the program itself recorded, too: they count in its session (R12).

use std::collections::BTreeMap;

use hashbrown::HashSet;

use super::{Spans, Usage, Work};

impl Spans {
    /// Leaves the usage of responses to the trace that `owner` names for their request. The spans keep their place.
    pub(crate) fn leave_usage_to<'k>(&mut self, owner: &dyn Fn(u64) -> Option<&'k str>) {
        let mut inherited: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
        let mut seen = HashSet::new();
        for span in &mut self.spans {
            let Work::Generation(generation) = &mut span.work else { continue };
            let Some(trace) = (generation.request != 0).then(|| owner(generation.request)).flatten() else {
                continue;
            };
            // A span may be recorded twice.
            if seen.insert(generation.request) {
                let (responses, tokens) = inherited.entry(trace).or_default();
                let all = generation.usage.total().unwrap_or(0);
                (*responses, *tokens) = (*responses + 1, tokens.saturating_add(all));
            }
            generation.usage = Usage::default();
            generation.extras = self.recording.extra_text(generation.extras, "x_copied", trace);
        }
        self.recording.inherits(inherited.into_iter().collect());
    }
}
