//! Owners of spans, and spans that are one generation.

use hashbrown::{HashMap, HashSet};

use super::forest::Forest;
use super::{AgentWork, NONE, Player, Span, Spans, Text, Usage, Who, Work};

/// Generations: of spans that contain each other the innermost counts.
#[derive(Debug)]
pub(super) struct Generations {
    /// Of each span that is a generation, the innermost one that stands for it.
    pub leaf: Vec<u32>,
    /// The outermost generation around it, itself perhaps.
    pub top: Vec<u32>,
    /// Spans around one generation or several that state usage, too.
    pub outer: Vec<u32>,
}

impl Generations {
    /// Finds them, and completes the innermost span from those around it.
    pub(super) fn of(all: &mut Spans, forest: &Forest) -> Self {
        let n = all.spans.len();
        let mut tree = Self { leaf: vec![NONE; n], top: vec![NONE; n], outer: Vec::new() };
        let mut inner = vec![0_u32; n];
        let is = |span: &Span| matches!(span.work, Work::Generation(_));
        for &i in forest.order.iter().filter(|i| is(&all.spans[**i as usize])) {
            let around = forest.places[i as usize].generation;
            tree.top[i as usize] = if around == NONE { i } else { tree.top[around as usize] };
            if around != NONE {
                inner[around as usize] += 1;
            }
        }
        let mut chain = vec![true; n];
        for &i in forest.order.iter().rev() {
            if !is(&all.spans[i as usize]) {
                continue;
            }
            if inner[i as usize] == 0 {
                tree.leaf[i as usize] = i;
            } else if inner[i as usize] == 1 && chain[i as usize] {
                complete(all, i, tree.leaf[i as usize], &mut tree.outer);
            } else {
                tree.outer.push(i);
            }
            let around = forest.places[i as usize].generation;
            if around != NONE {
                // Children come last to first: of several the first one stays.
                tree.leaf[around as usize] = tree.leaf[i as usize];
                chain[around as usize] &= chain[i as usize] && inner[i as usize] < 2;
            }
        }
        tree
    }
}

/// Gives the innermost span the values that only a span around it records.
fn complete(all: &mut Spans, around: u32, leaf: u32, outer: &mut Vec<u32>) {
    let around_it = all.spans[around as usize];
    let calls = all.calls_of[around as usize];
    let inner = &mut all.spans[leaf as usize];
    let (Work::Generation(told), Work::Generation(known)) = (around_it.work, &mut inner.work) else { return };
    if known.usage == Usage::default() {
        known.usage = told.usage;
    } else {
        known.usage.cost_usd = known.usage.cost_usd.or(told.usage.cost_usd);
        if told.usage != Usage::default() {
            outer.push(around);
        }
    }
    known.text = known.text.or(told.text);
    known.reward = known.reward.or(told.reward);
    for (known, told) in [
        (&mut known.model, told.model),
        (&mut known.extras, told.extras),
        (&mut known.who.name, told.who.name),
        (&mut known.who.id, told.who.id),
        (&mut inner.error_type, around_it.error_type),
    ] {
        if known.is_none() {
            *known = told;
        }
    }
    inner.ok = inner.ok.or(around_it.ok);
    let calls_of_leaf = &mut all.calls_of[leaf as usize];
    if calls_of_leaf.0 == calls_of_leaf.1 {
        *calls_of_leaf = calls;
    }
}

/// Whose work spans are.
#[derive(Debug, Default)]
pub(super) struct Owners {
    pub players: Vec<Player>,
    /// Of a span of an agent itself, that agent; of other spans with a meaning, whose work it is; unknown of tools
    /// without an agent above.
    pub of: Vec<u32>,
    /// Spans that record the agent span above once more.
    pub merged: Vec<bool>,
    /// Players that are known by the name of a chain or service.
    named: HashMap<(u8, String), u32>,
    /// Chains that gave their name.
    pub chains: Vec<u32>,
    /// Agents that are one by their id although their spans have different names, and those names.
    pub doubtful: Vec<String>,
}

/// What a name is of.
const AGENT: u8 = 0;
const CHAIN: u8 = 1;
const SERVICE: u8 = 2;

impl Owners {
    pub(super) fn of(all: &Spans, forest: &Forest, generations: &Generations) -> Self {
        let n = all.spans.len();
        let mut owners = Self { of: vec![NONE; n], merged: vec![false; n], ..Self::default() };
        let mut visited: HashMap<(u32, &str), u32> = HashMap::new();
        let shared = all.shared_ids(forest);
        for &i in &forest.order {
            let place = &forest.places[i as usize];
            let span = &all.spans[i as usize];
            let above = if place.agent == NONE { NONE } else { owners.of[place.agent as usize] };
            owners.of[i as usize] = match span.work {
                Work::Agent(mut agent) => {
                    if shared.contains(all.read(agent.who.id)) {
                        agent.who.id = Text::default();
                    }
                    let again = above != NONE
                        && place.tool == NONE
                        && place.generation == NONE
                        && all.same_who(agent.who, owners.players[above as usize].who);
                    let visited_player = visited.get(&(above, all.read(agent.who.id)));
                    let player = match visited_player {
                        _ if again => above,
                        Some(player) if !agent.who.id.is_none() => {
                            owners.doubt(all, *player, agent.who);
                            *player
                        }
                        _ => owners.player(agent.who, above),
                    };
                    if again {
                        owners.doubt(all, player, agent.who);
                        owners.merged[i as usize] = true;
                    } else {
                        visited.insert((above, all.read(agent.who.id)), player);
                        let player = &mut owners.players[player as usize];
                        player.last_visit = Some(i);
                        player.open |= span.end.is_none();
                    }
                    player
                }
                Work::Generation(_) if generations.leaf[i as usize] != i => NONE,
                _ if above != NONE => above,
                Work::Generation(generation) => owners.named(all, generation.who, place.chain, span.service),
                Work::Guardrail(_) | Work::Creates(_) => {
                    owners.named(all, Who::default(), place.chain, span.service)
                }
                Work::Tool(_) | Work::Chain(_) | Work::Decision | Work::Nothing => NONE,
            };
        }
        owners
    }

    /// Remembers that a span is of a player by its id alone.
    fn doubt(&mut self, all: &Spans, player: u32, who: Who) {
        let who_before = self.players[player as usize].who;
        let (name_before, name_now) = (all.read(who_before.name), all.read(who.name));
        if name_before != name_now && !who_before.name.is_none() && !who.name.is_none() {
            let id = all.read(who.id);
            let message = format!(
                "'{name_before}' and '{name_now}' are taken for one agent, since both have the id '{id}'"
            );
            if !self.doubtful.contains(&message) {
                self.doubtful.push(message);
            }
        }
    }

    fn player(&mut self, who: Who, parent: u32) -> u32 {
        let parent = (parent != NONE).then_some(parent);
        self.players.push(Player { who, parent, ..Player::default() });
        self.players.len() as u32 - 1
    }

    /// Who works where no agent is above: whom the span itself names, else the program's part around it, else the
    /// service.
    fn named(&mut self, all: &Spans, who: Who, chain: u32, service: Text) -> u32 {
        let (class, who) = if !who.name.is_none() {
            (AGENT, who)
        } else if let Some(Span { work: Work::Chain(name), .. }) = all.spans.get(chain as usize) {
            if !self.chains.contains(&chain) {
                self.chains.push(chain);
            }
            (CHAIN, Who { name: *name, ..Who::default() })
        } else {
            (SERVICE, Who { name: service, ..Who::default() })
        };
        let key = (class, all.read(who.name).to_owned());
        if let Some(known) = self.named.get(&key) {
            return *known;
        }
        let player = self.player(who, NONE);
        self.named.insert(key, player);
        player
    }

    /// Who works for a service as such; made if nobody does yet.
    pub(super) fn service(&mut self, all: &Spans, service: Text) -> u32 {
        self.named(all, Who::default(), NONE, service)
    }

    /// Whose tool it is where neither an agent nor a call says it: the part of the program around it if that asks
    /// models, the only one there is, else the service.
    pub(super) fn by_place(&mut self, all: &Spans, chain: u32, service: Text) -> u32 {
        if let Some(Span { work: Work::Chain(name), .. }) = all.spans.get(chain as usize)
            && let Some(known) = self.named.get(&(CHAIN, all.read(*name).to_owned()))
        {
            return *known;
        }
        let mut roots = (0..self.players.len()).filter(|p| self.players[*p].parent.is_none());
        match (roots.next(), roots.next()) {
            (Some(only), None) => only as u32,
            _ => self.service(all, service),
        }
    }

    /// Whether one is an ancestor of the other, or the other itself.
    pub(super) fn is_above(&self, above: u32, below: u32) -> bool {
        let mut at = Some(below);
        let mut steps = 0;
        while let Some(p) = at.filter(|_| steps <= self.players.len()) {
            if p == above {
                return true;
            }
            at = self.players[p as usize].parent;
            steps += 1;
        }
        false
    }
}

impl Spans {
    pub(super) fn read(&self, text: Text) -> &str {
        self.recording.read(text)
    }

    /// Whether two spans say the same of who works: names that are stated, then ids, then any names.
    fn same_who(&self, first: Who, second: Who) -> bool {
        let same_name = !first.name.is_none() && self.read(first.name) == self.read(second.name);
        let stated = |who: Who| !who.name.is_none() && !who.inferred;
        if stated(first) && stated(second) && !same_name {
            return false;
        }
        if first.id.is_none() || second.id.is_none() {
            same_name
        } else {
            self.read(first.id) == self.read(second.id)
        }
    }

    /// Ids that agents of several stated names have: of a class, a service or nothing at all, but not of an agent.
    fn shared_ids(&self, forest: &Forest) -> HashSet<&str> {
        let mut named: HashMap<&str, &str> = HashMap::new();
        let mut shared = HashSet::new();
        for &i in &forest.order {
            let Work::Agent(AgentWork { who, .. }) = self.spans[i as usize].work else { continue };
            if who.id.is_none() || who.name.is_none() || who.inferred {
                continue;
            }
            let (id, name) = (self.read(who.id), self.read(who.name));
            if *named.entry(id).or_insert(name) != name {
                shared.insert(id);
            }
        }
        shared
    }
}
