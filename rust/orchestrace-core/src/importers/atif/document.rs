//! Documents of a trace, as the contexts of their steps describe them.

use std::collections::HashMap;

use super::run_of;
use crate::importers::items::TraceItems;
use crate::json::time::parse_timestamp;
use crate::json::tree::{Tree, Value};

/// One document, as the context of its steps describes it.
pub(super) struct Document<'a> {
    pub tree: Tree<'a>,
    pub steps: Vec<(usize, Tree<'a>)>,
    /// When its first step with a time was.
    pub began: Option<i64>,
}

impl Document<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.tree.root().get(key).some_str()
    }

    /// The id of the agent's run, and which part of it this is.
    pub(super) fn run(&self) -> (&str, u32) {
        let id = self.get("trajectory_id").or_else(|| self.get("session_id"));
        let (run, part) = run_of(id.unwrap_or_default());
        let by_session = self.get("session_id").map_or(0, |id| run_of(id).1);
        let name = self.get("row_name").or(self.get("file")).unwrap_or_default();
        (if run.is_empty() { name } else { run }, part.max(by_session))
    }

    /// Whether it is this one that a reference means.
    pub(super) fn is_meant(&self, reference: Value<'_>) -> bool {
        let of = |key: &str| reference.get(key).some_str();
        // A path leads to what has no such id itself.
        if let Some(id) = of("trajectory_id")
            && (self.get("trajectory_id").is_some() || of("trajectory_path").is_none())
        {
            return self.get("trajectory_id") == Some(id);
        }
        if let Some(path) = of("trajectory_path") {
            return self.get("file") == path.rsplit('/').next() && self.get("within").is_none();
        }
        of("session_id").is_some_and(|id| self.get("session_id") == Some(id))
    }
}

/// All documents of a trace, in the order in which they began.
pub(super) fn documents_of<'a>(items: &TraceItems<'a>) -> Vec<Document<'a>> {
    let mut documents: Vec<Document<'a>> = Vec::new();
    let mut of: HashMap<&str, usize> = HashMap::new();
    for (i, item) in items.iter().enumerate() {
        let Ok(step) = Tree::parse(item.text, items.limits()) else { continue };
        let at = if let Some(at) = of.get(item.context) {
            *at
        } else {
            let Ok(tree) = Tree::parse(item.context, items.limits()) else { continue };
            documents.push(Document { tree, steps: Vec::new(), began: None });
            of.insert(item.context, documents.len() - 1);
            documents.len() - 1
        };
        let document = &mut documents[at];
        document.began = document.began.or_else(|| time_of(step.root()));
        document.steps.push((i, step));
    }
    let order = |document: &Document<'_>| {
        let text = |key: &str| document.get(key).unwrap_or_default().to_owned();
        let (run, part) = document.run();
        (document.began.is_none(), part, document.began, run.to_owned(), text("file"), text("within"))
    };
    documents.sort_by_cached_key(order);
    documents
}

/// When a step was.
pub(super) fn time_of(step: Value<'_>) -> Option<i64> {
    step.get("timestamp").str().and_then(parse_timestamp)
}
