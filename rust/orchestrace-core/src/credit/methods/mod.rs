//! Credit methods, a file each; a file of a family may hold several.
//!
//! To add a method: write the file, name it below, add its entry to [`METHODS`].

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
pub mod reinforce_pp;
pub mod returns;
pub mod shape;
pub mod shapley;
pub mod sharp;
pub mod spectrum;
pub mod uniform;

use super::method::Method::{self, PerGame, PerGroup, PerTrace};

/// Every method, in the order of the documentation.
pub static METHODS: &[Method] = &[
    PerTrace(&uniform::Uniform),
    PerTrace(&broadcast::Broadcast),
    PerTrace(&discounted::Discounted),
    PerTrace(&returns::RETURN_TO_GO),
    PerTrace(&returns::GAE),
    PerTrace(&returns::SEQUENTIAL_GAE),
    PerTrace(&returns::ELIGIBILITY),
    PerTrace(&dag_gae::DagGae),
    PerTrace(&flow::Flow),
    PerTrace(&flow_discounted::FlowDiscounted),
    PerGroup(&group::GRPO),
    PerGroup(&group::DR_GRPO),
    PerGroup(&group::RLOO),
    PerGroup(&group::PASS_K),
    PerGroup(&reinforce_pp::ReinforcePp),
    PerGroup(&shape::ShapeNormalised),
    PerGroup(&agents::DR_MAS),
    PerGroup(&agents::AT_GRPO),
    PerGroup(&agents::MAGRPO),
    PerGroup(&agents::MARSHAL),
    PerGroup(&gigpo::Gigpo),
    PerGroup(&c3::C3),
    PerGroup(&spectrum::Spectrum),
    PerGame(&difference::Difference),
    PerGame(&shapley::Shapley),
    PerGame(&banzhaf::BANZHAF),
    PerGame(&banzhaf::NORMALIZED_BANZHAF),
    PerGame(&owen::OWEN),
    PerGame(&owen::WINTER),
    PerGame(&myerson::Myerson),
    PerGame(&forest::PrecedenceShapley),
    PerGame(&forest::Permission),
    PerGroup(&sharp::Sharp),
];
