//! Credit methods, a file each; a file of a family may hold several.
//!
//! A file lists its own methods. To add a file: name it twice below.

pub mod agents;
pub mod banzhaf;
pub mod broadcast;
pub mod c3;
pub mod dag_gae;
pub mod difference;
pub mod discounted;
pub mod flow;
pub mod flow_discounted;
pub mod forest;
pub mod gigpo;
pub mod group;
pub mod myerson;
pub mod owen;
mod own_reward;
pub mod reinforce_pp;
pub mod returns;
pub mod shape;
pub mod shapley;
pub mod sharp;
pub mod spectrum;
pub mod uniform;

use super::method::Method;

/// Entries of all files, in the order of the documentation.
const FILES: &[&[Method]] = &[
    uniform::METHODS,
    broadcast::METHODS,
    discounted::METHODS,
    returns::METHODS,
    dag_gae::METHODS,
    flow::METHODS,
    flow_discounted::METHODS,
    group::METHODS,
    reinforce_pp::METHODS,
    shape::METHODS,
    agents::METHODS,
    gigpo::METHODS,
    c3::METHODS,
    spectrum::METHODS,
    difference::METHODS,
    shapley::METHODS,
    banzhaf::METHODS,
    owen::METHODS,
    myerson::METHODS,
    forest::METHODS,
    sharp::METHODS,
];

/// Every method, in the order of the documentation.
pub static METHODS: &[Method] = &ALL;

static ALL: [Method; N] = all();

const N: usize = {
    let (mut n, mut file) = (0, 0);
    while file < FILES.len() {
        n += FILES[file].len();
        file += 1;
    }
    n
};

const fn all() -> [Method; N] {
    let mut all = [FILES[0][0]; N];
    let (mut at, mut file) = (0, 0);
    while file < FILES.len() {
        let mut i = 0;
        while i < FILES[file].len() {
            all[at] = FILES[file][i];
            at += 1;
            i += 1;
        }
        file += 1;
    }
    all
}
