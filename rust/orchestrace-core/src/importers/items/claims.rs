//! Responses that several traces have, and the one of these in which each counts (R12).

use hashbrown::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

/// A response that a trace has; others may have it, too, and it counts in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// 0 where only the request is known.
    pub response: u64,
    /// Its request; 0 where that is not known.
    pub request: u64,
    /// A code of the block first, its number in the end.
    pub trace: u32,
    /// Whether the trace says that it repeats it, and when it was.
    pub forked: bool,
    pub time: i64,
    /// The session that has it, and the one that it says to repeat it from; 0 where it says none.
    pub session: u64,
    pub from: u64,
}

impl Claim {
    /// What all claims of a trace are of, and not a claim on a response: its session, and the one that it repeats.
    pub(super) fn of_session(trace: u32, name: &str, from: Option<&str>) -> Self {
        let from = from.map_or(0, session);
        Self { response: 0, request: 0, trace, forked: from != 0, time: 0, session: session(name), from }
    }

    fn is_of_session(&self) -> bool {
        (self.response, self.request) == (0, 0)
    }
}

/// What a claim calls a session.
pub(super) fn session(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// What a claim calls a request, if its id is one as the provider gives them: other words may be of many requests.
pub(crate) fn request_identity(id: &str) -> u64 {
    if id.len() > REQUEST.len() && id.starts_with(REQUEST) { xxh3_64(id.as_bytes()) } else { 0 }
}

/// What ids of requests begin with.
const REQUEST: &str = "req_";

/// The traces that responses of several traces count in.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    traces: HashMap<u64, u32>,
    /// The responses of requests by which another recording knows them.
    responses: HashMap<u64, u64>,
    keys: HashMap<u32, Box<str>>,
}

impl Owners {
    /// Of the claims on a response none counts of a session that says to repeat it from another one that has it. Of the
    /// others the one of a trace that does not say that it repeats it, then the earliest, then that of the least key
    /// counts; no order of inputs decides.
    pub(crate) fn of<'k>(claims: impl Iterator<Item = Claim> + Clone, key: impl Fn(u32) -> &'k str) -> Self {
        let responses = responses(claims.clone());
        let sessions = sessions(claims.clone());
        let claims = claims.filter_map(|claim| {
            let by_request = || responses.get(&claim.request).copied();
            let response = Some(claim.response).filter(|known| *known != 0).or_else(by_request)?;
            match sessions.get(&claim.trace) {
                Some(of) => {
                    Some(Claim { response, session: of.session, from: of.from, forked: of.forked, ..claim })
                }
                None => Some(Claim { response, ..claim }),
            }
        });
        let mut first: HashMap<u64, (u32, bool)> = HashMap::new();
        for claim in claims.clone() {
            let (trace, shared) = first.entry(claim.response).or_insert((claim.trace, false));
            *shared |= *trace != claim.trace;
        }
        first.retain(|_, (_, shared)| *shared);
        let mut rivals: HashMap<u64, Vec<Claim>> = HashMap::with_capacity(first.len());
        for claim in claims.filter(|claim| first.contains_key(&claim.response)) {
            rivals.entry(claim.response).or_default().push(claim);
        }
        let mut owners = Self { responses: responses.clone(), ..Self::default() };
        for (response, rivals) in rivals {
            let has = |claim: &Claim| {
                rivals.iter().any(|other| other.session == claim.from && other.trace != claim.trace)
            };
            let is_original = |claim: &&Claim| claim.from == 0 || !has(claim);
            let rank = |claim: &&Claim| (claim.forked, claim.time, key(claim.trace));
            let originals = rivals.iter().filter(is_original).min_by_key(rank);
            // Sessions that all repeat each other leave none.
            let Some(claim) = originals.or_else(|| rivals.iter().min_by_key(rank)) else { continue };
            owners.traces.insert(response, claim.trace);
            owners.keys.entry(claim.trace).or_insert_with(|| key(claim.trace).into());
        }
        owners
    }

    /// The key of the trace that a response counts in, if several have it.
    pub(super) fn owner(&self, response: u64) -> Option<&str> {
        self.traces.get(&response).map(|trace| &*self.keys[trace])
    }

    /// The same of the response to a request.
    pub(super) fn owner_by_request(&self, request: u64) -> Option<&str> {
        self.responses.get(&request).and_then(|response| self.owner(*response))
    }
}

/// What traces say of their session for all of their claims; of several the least, whatever is read first.
fn sessions(claims: impl Iterator<Item = Claim>) -> HashMap<u32, Claim> {
    let mut sessions: HashMap<u32, Claim> = HashMap::new();
    for claim in claims.filter(Claim::is_of_session) {
        let least = sessions.entry(claim.trace).or_insert(claim);
        if (claim.session, claim.from) < (least.session, least.from) {
            *least = claim;
        }
    }
    sessions
}

/// The response to each request by which a claim knows one, if it is a single one.
fn responses(claims: impl Iterator<Item = Claim> + Clone) -> HashMap<u64, u64> {
    let by_request = claims.clone().filter(|claim| claim.response == 0 && claim.request != 0);
    let mut responses: HashMap<u64, u64> = by_request.map(|claim| (claim.request, 0)).collect();
    if responses.is_empty() {
        return responses;
    }
    let mut unclear = HashSet::new();
    for claim in claims.filter(|claim| claim.response != 0) {
        if let Some(response) = responses.get_mut(&claim.request) {
            if *response != 0 && *response != claim.response {
                unclear.insert(claim.request);
            }
            *response = claim.response;
        }
    }
    responses.retain(|request, response| *response != 0 && !unclear.contains(request));
    responses
}
