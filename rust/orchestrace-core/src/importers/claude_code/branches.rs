//! Records on abandoned branches: after an edited prompt, or a session resumed from an earlier record, one record has
//! several successors, and the newest continues the conversation.

use hashbrown::HashSet;

use super::record::{Block, Code, Line, LineContent, Records};
use crate::importers::TraceItems;

/// What a line is to a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Nothing that a conversation consists of.
    None,
    /// A result, which follows its call wherever that is.
    Result,
    /// Part of a response.
    Response(Code),
    /// A prompt.
    Prompt,
}

fn weight(records: &Records, line: &Line) -> Weight {
    match &line.content {
        LineContent::Assistant(assistant) if !assistant.synthetic => Weight::Response(assistant.response),
        LineContent::User(user) if !user.meta => {
            let results = records.blocks(user.blocks).iter().any(|b| matches!(b, Block::Outcome(_)));
            match (results, user.text.prompt) {
                (true, _) => Weight::Result,
                (false, Some(_)) => Weight::Prompt,
                (false, None) => Weight::None,
            }
        }
        _ => Weight::None,
    }
}

/// Whether each line is on a branch that was given up, and whether the links between records close a cycle, which is
/// cut where it closes. O(n).
///
/// The newest line of a tree of records is where the conversation lives; so do all lines before it. Another branch was
/// given up if it has a prompt of its own, or a response that has no part on the living branch: what is left are the
/// results of calls that ran side by side.
pub(super) fn abandoned(items: &TraceItems<'_>, records: &Records) -> (Vec<bool>, bool) {
    let mut given_up = vec![false; records.lines.len()];
    let n = records.parents.len();
    // Of lines that share an id, the newest stands for it.
    let mut line_of: Vec<u32> = vec![u32::MAX; n];
    for (at, line) in records.lines.iter().enumerate() {
        let inline = line.sidechain && line.agent == 0;
        let place = &mut line_of[line.uuid as usize];
        let older = |other: &Line| {
            let by_digest = || other.digest(items) < line.digest(items);
            other.time < line.time || (other.time == line.time && by_digest())
        };
        if line.uuid != 0 && !inline && records.lines.get(*place as usize).is_none_or(older) {
            *place = at as u32;
        }
    }
    let (order, parents, cycle) = sorted(&records.parents);
    // Whether anything follows a record twice; most sessions never fork.
    let mut children = vec![0_u32; n];
    for &node in &order {
        children[parents[node as usize] as usize] += 1;
    }
    if children.iter().skip(1).all(|count| *count < 2) {
        return (given_up, cycle);
    }
    // The newest line below each record, and the child that leads there.
    let mut newest: Vec<Option<(i64, u32)>> = vec![None; n];
    let mut leads: Vec<Code> = vec![0; n];
    for &node in order.iter().rev() {
        let own_line = line_of[node as usize];
        if let Some(line) = records.lines.get(own_line as usize)
            && weight(records, line) != Weight::None
        {
            newest[node as usize] =
                newest[node as usize].max(Some((line.time.unwrap_or(i64::MIN), own_line)));
        }
        let parent = parents[node as usize] as usize;
        if parent != 0 && newest[node as usize].is_some() && newest[node as usize] > newest[parent] {
            newest[parent] = newest[node as usize];
            leads[parent] = node;
        }
    }
    let mut lives = vec![false; n];
    let mut living: HashSet<Code> = HashSet::new();
    let weigh = |node: Code| {
        records.lines.get(line_of[node as usize] as usize).map_or(Weight::None, |line| weight(records, line))
    };
    for &node in &order {
        let parent = parents[node as usize];
        lives[node as usize] = parent == 0 || (lives[parent as usize] && leads[parent as usize] == node);
        if let (true, Weight::Response(response)) = (lives[node as usize], weigh(node)) {
            living.insert(response);
        }
    }
    // From the leaves up: whether a branch has what makes it one of its own.
    let mut stands_alone = vec![false; n];
    for &node in order.iter().rev().filter(|node| !lives[**node as usize]) {
        stands_alone[node as usize] |= match weigh(node) {
            Weight::Prompt => true,
            Weight::Response(response) => !living.contains(&response),
            Weight::Result | Weight::None => false,
        };
        let parent = parents[node as usize] as usize;
        stands_alone[parent] |= stands_alone[node as usize] && !lives[parent];
    }
    // And down: what hangs on such a branch belongs to it, results of living calls excepted.
    for &node in &order {
        let parent = parents[node as usize] as usize;
        if lives[node as usize] {
            continue;
        }
        let above = parent != 0 && !lives[parent] && stands_alone[parent];
        stands_alone[node as usize] |= above;
        if stands_alone[node as usize]
            && !matches!(weigh(node), Weight::Response(response) if living.contains(&response))
            && let Some(flag) = given_up.get_mut(line_of[node as usize] as usize)
        {
            *flag = true;
        }
    }
    for (at, line) in records.lines.iter().enumerate() {
        let same = line_of.get(line.uuid as usize).copied().unwrap_or(u32::MAX);
        if line.uuid != 0 && same != u32::MAX {
            given_up[at] = given_up[same as usize];
        }
    }
    (given_up, cycle)
}

/// All records, each after the one before it; the parents without the link that closes a cycle; whether there was one.
fn sorted(parents: &[Code]) -> (Vec<Code>, Vec<Code>, bool) {
    let mut parents = parents.to_vec();
    let mut order = Vec::with_capacity(parents.len());
    let mut state = vec![0_u8; parents.len()];
    let mut cycle = false;
    let mut path = Vec::new();
    for start in 1..parents.len() {
        let mut at = start;
        while at != 0 && state[at] == 0 {
            state[at] = 1;
            path.push(at);
            at = parents[at] as usize;
        }
        if let Some(last) = path.last().filter(|_| at != 0 && state[at] == 1) {
            // Its link leads to a record that was passed on the way to it.
            cycle = true;
            parents[*last] = 0;
        }
        while let Some(at) = path.pop() {
            state[at] = 2;
            order.push(at as Code);
        }
    }
    (order, parents, cycle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_cut_once() {
        // 1 -> 2 -> 3 -> 1, and 4 hangs on 3; 5 alone follows itself.
        let (order, parents, cycle) = sorted(&[0, 2, 3, 1, 3, 5]);
        assert!(cycle);
        assert_eq!(order.len(), 5);
        for (place, node) in order.iter().enumerate() {
            let parent = parents[*node as usize];
            assert!(parent == 0 || order[..place].contains(&parent), "{node} of {order:?}");
        }
        assert_eq!(parents.iter().skip(1).filter(|p| **p == 0).count(), 2);
        assert!(!sorted(&[0, 0, 1, 2]).2);
    }
}
