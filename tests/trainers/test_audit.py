"""Audit of advantages: honest dumps are not accused, and faults that somebody made are named."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from orchestrace.trainers.faults import FAULTS

F32 = np.float32


def by_group(rewards: np.ndarray, groups: np.ndarray, rule: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A rule of each group by itself, in 32 bits, as trainers compute."""
    found = np.zeros(len(rewards), F32)
    for group in np.unique(groups):
        mine = groups == group
        found[mine] = rule(rewards[mine].astype(F32))
    return found


def grpo(ddof: int, epsilon: float, keep: bool) -> Callable[[np.ndarray], np.ndarray]:
    def rule(r: np.ndarray) -> np.ndarray:
        if len(r) == 1:
            return r / F32(1 + epsilon) if keep else np.zeros(1, F32)
        if r.max() == r.min():
            return np.zeros(len(r), F32)
        return (r - r.mean(dtype=F32)) / (r.std(ddof=ddof, dtype=F32) + F32(epsilon))

    return rule


def dr_grpo(r: np.ndarray) -> np.ndarray:
    return r - r.mean(dtype=F32) if len(r) > 1 else np.zeros(1, F32)


def rloo(r: np.ndarray) -> np.ndarray:
    return r - (r.sum(dtype=F32) - r) / F32(len(r) - 1) if len(r) > 1 else np.zeros(1, F32)


def maxrl(epsilon: float) -> Callable[[np.ndarray], np.ndarray]:
    def rule(r: np.ndarray) -> np.ndarray:
        if len(r) == 1 or r.max() == r.min():
            return np.zeros(len(r), F32)
        return (r - r.mean(dtype=F32)) / (r.mean(dtype=F32) + F32(epsilon))

    return rule


def pass_k(by_deviation: float | None) -> Callable[[np.ndarray], np.ndarray]:
    def rule(r: np.ndarray) -> np.ndarray:
        found = np.zeros(len(r), F32)
        if len(r) > 1:
            second, best = np.sort(r)[-2:]
            unit = F32(1) if by_deviation is None else r.std(ddof=1, dtype=F32) + F32(by_deviation)
            if best > second:
                found[r.argmax()] = (best - second) / unit
        return found

    return rule


def unmasked(r: np.ndarray) -> np.ndarray:
    """The best of a group gets its lead; the others keep what they were paid (EasyR1's issue 585)."""
    found = r.copy()
    found[r.argmax()] = pass_k(None)(r).max()
    return found


def batch_std(rewards: np.ndarray, groups: np.ndarray, ddof: int) -> np.ndarray:
    return by_group(rewards, groups, dr_grpo) / (rewards.astype(F32).std(ddof=ddof) + F32(1e-4))


RULES: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "dr_grpo": ("dr_grpo", lambda r, g: by_group(r, g, dr_grpo)),
    "rloo": ("rloo", lambda r, g: by_group(r, g, rloo)),
    "batch deviation": ("reinforce_pp", lambda r, g: batch_std(r, g, 1)),
    "whole batch": (
        "reinforce_pp",
        lambda r, g: (r - r.mean()).astype(F32) / (r.astype(F32).std(ddof=1) + F32(1e-8)),
    ),
    "pass_k": ("pass_k", lambda r, g: by_group(r, g, pass_k(None))),
    "pass_k by deviation": ("pass_k", lambda r, g: by_group(r, g, pass_k(1e-6))),
    "nothing": ("broadcast", lambda r, g: r.astype(F32)),
    **{
        f"grpo {ddof} {epsilon} {keep}": (
            "grpo",
            lambda r, g, ddof=ddof, epsilon=epsilon, keep=keep: by_group(r, g, grpo(ddof, epsilon, keep)),
        )
        for ddof in (0, 1)
        for epsilon in (0.0, 1e-8, 1e-6, 1e-4)
        for keep in (False, True)
    },
}
REWARDS = st.sampled_from([0.0, 1.0, 0.35, -0.5, 0.1, 2.25, 0.7])


@st.composite
def steps(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    groups = np.array(draw(st.lists(st.integers(0, 4), min_size=2, max_size=24)))
    rewards = np.array(draw(st.lists(REWARDS, min_size=len(groups), max_size=len(groups))))
    return rewards, groups


@settings(deadline=None)
@given(steps())
@pytest.mark.parametrize("rule", RULES)
def test_no_honest_dump_is_accused(rule: str, drawn: tuple[np.ndarray, np.ndarray]) -> None:
    rewards, groups = drawn
    advantages = RULES[rule][1](rewards, groups)
    dump = pl.DataFrame({"reward": rewards, "group": groups, "advantage": advantages})
    row = ot.trainers.audit(dump).row(0, named=True)
    assert (row["explained"], row["fault"]) == (1.0, None), row


def step(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eight groups of four, and one of a single rollout; all have spread."""
    rng = np.random.default_rng(seed)
    rewards = np.concatenate([rng.permutation([0.0, 0.3, 0.65, 1.0]) * rng.uniform(0.5, 1) for _ in range(8)])
    return np.append(rewards, 0.4), np.append(np.repeat(np.arange(8), 4), 8)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_named(rule: str) -> None:
    rewards, groups = step()
    dump = pl.DataFrame({"r": rewards, "g": groups, "a": RULES[rule][1](rewards, groups)})
    row = ot.trainers.audit(dump, reward="r", group="g", advantage="a").row(0, named=True)
    assert row["rule"] == RULES[rule][0]
    assert row["largest_residual"] < 1e-5 and row["rows"] == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=24))
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-4])
def test_advantages_of_verdicts_are_not_accused(epsilon: float, drawn: list[tuple[int, bool]]) -> None:
    groups, rewards = (np.array(column) for column in zip(*drawn, strict=True))
    advantages = by_group(rewards.astype(float), groups, maxrl(epsilon))
    dump = pl.DataFrame({"reward": rewards.astype(float), "group": groups, "advantage": advantages})
    row = ot.trainers.audit(dump).row(0, named=True)
    assert (row["explained"], row["fault"]) == (1.0, None), row


def test_the_rule_of_verdicts_is_named() -> None:
    groups = np.repeat(np.arange(5), [2, 3, 5, 7, 4])
    rewards = np.array([1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1], float)
    advantages = by_group(rewards, groups, maxrl(0.0))
    dump = pl.DataFrame({"reward": rewards, "group": groups, "advantage": advantages})
    row = ot.trainers.audit(dump).row(0, named=True)
    assert row["rule"] == "maxrl" and row["largest_residual"] < 1e-5


def fanned() -> dict[str, Any]:
    """Three rows of one rollout, and one of another: the mean is .75 where it is .5."""
    return {"reward": [1.0, 1.0, 1.0, 0.0], "rollout": ["x", "x", "x", "y"], "group": ["g"] * 4} | {
        "advantage": [0.25, 0.25, 0.25, -0.75]
    }


def ragged() -> dict[str, Any]:
    """Groups of several sizes: with equal ones, a second normalization is that of another `ddof`."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(5), [2, 3, 5, 7, 4])
    rewards = rng.random(len(groups))
    return {"reward": rewards, "group": groups, "advantage": doubled(rewards, groups)}


def plain(change: Callable[[np.ndarray, np.ndarray], np.ndarray], **columns: Any) -> dict[str, Any]:
    rewards, groups = step()
    return {"reward": rewards, "group": groups, "advantage": change(rewards, groups), **columns}


def merged() -> dict[str, Any]:
    """Two agents of each task, whose rewards differ by more than chance, compared as one group."""
    rng = np.random.default_rng(6)
    tasks, agents = np.repeat(np.arange(5), 6), np.tile(["lead", "coder"], 15)
    rewards = rng.random(30) + (agents == "lead")
    return {"reward": rewards, "task": tasks, "agent": agents, "advantage": by_group(rewards, tasks, dr_grpo)}


def masked() -> dict[str, Any]:
    """Advantages on the tokens of tools, too, which the mask leaves out, in one row of three."""
    rewards, groups = step()
    values = by_group(rewards, groups, dr_grpo)
    masks = [[1, 1, 0, 0, 1] if at % 3 == 0 else [1, 1, 1] for at in range(len(values))]
    return {
        "reward": rewards,
        "group": groups,
        "mask": masks,
        "advantage": [[float(one)] * len(mask) for one, mask in zip(values, masks, strict=True)],
    }


def turns(seed: int = 3) -> dict[str, Any]:
    """Five groups of four rollouts of one to six turns, each turn with a reward of its own, in any order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 20)
    rollouts = np.repeat(np.arange(20), sizes)
    columns = {
        "rollout": rollouts,
        "turn": np.concatenate([np.arange(size) * 3 + 1 for size in sizes]),
        "group": rollouts // 4,
        "reward": rng.random(len(rollouts)).round(2),
    }
    order = rng.permutation(len(rollouts))
    return {name: values[order] for name, values in columns.items()}


def to_go(columns: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Sums from each turn on, in plain Python."""
    rows = list(zip(columns["rollout"], columns["turn"], values, strict=True))
    return np.array([sum(v for r, t, v in rows if r == own and t >= turn) for own, turn, _ in rows])


def by_turn(
    columns: dict[str, Any], values: np.ndarray, rule: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    return by_group(values, columns["group"] * 100 + columns["turn"], rule)


OF_TURNS: dict[str, Callable[[dict[str, Any]], np.ndarray]] = {
    "return_to_go": lambda c: to_go(c, c["reward"]).astype(F32),
    "magrpo": lambda c: by_turn(c, to_go(c, c["reward"]), dr_grpo),
    "at_grpo": lambda c: by_turn(c, to_go(c, c["reward"]), grpo(1, 1e-6, False)),
    "marshal": lambda c: by_group(to_go(c, c["reward"]), c["group"], dr_grpo),
    "dr_grpo": lambda c: np.array(
        [
            of_rollout[at] - of_rollout[at // 4 * 4 : at // 4 * 4 + 4].mean()
            for of_rollout in [np.bincount(c["rollout"], c["reward"])]
            for at in c["rollout"]
        ]
    ),
}
AS_TURNS = {"turn": "turn", "rollout": "rollout"}


@pytest.mark.parametrize("rule", OF_TURNS)
@pytest.mark.parametrize("seed", range(4))
def test_rules_of_turns_are_named(rule: str, seed: int) -> None:
    columns = turns(seed)
    dump = pl.DataFrame(columns | {"advantage": OF_TURNS[rule](columns)})
    row = ot.trainers.audit(dump, **AS_TURNS).row(0, named=True)
    assert (row["rule"], row["explained"], row["fault"]) == (rule, 1.0, None), row


def indexed() -> dict[str, Any]:
    """Rewards less the mean of their turn, added up: how many means hangs on when a rollout stops."""
    columns = turns()
    return columns | {"advantage": to_go(columns, by_turn(columns, columns["reward"], dr_grpo))}


def test_turns_are_of_rollouts() -> None:
    with pytest.raises(ot.ParameterError, match="turns are of a rollout"):
        ot.trainers.audit(pl.DataFrame(indexed()), turn="turn")


LENGTHS = np.random.default_rng(1).integers(5, 90, 33).astype(float)
KEPT = np.random.default_rng(2).random(33) < 0.7


def doubled(r: np.ndarray, g: np.ndarray) -> np.ndarray:
    first = by_group(r, g, grpo(1, 1e-6, False))
    return (first - first.mean()) / (first.std(ddof=1) + F32(1e-6))


def split(r: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Micro-batches of three rows cut the groups of four."""
    return by_group(r, g * 100 + np.arange(len(r)) // 3, grpo(1, 1e-6, False))


def noisy(r: np.ndarray, g: np.ndarray) -> np.ndarray:
    found = by_group(r, g, grpo(1, 1e-6, False))
    found[:4] = 0.0289
    return found


def padded(r: np.ndarray, g: np.ndarray) -> np.ndarray:
    """The mean divides by the size of the largest group."""
    return np.concatenate([r[g == group] - r[g == group].sum() / 4 for group in range(9)]).astype(F32)


def lonely(r: np.ndarray, g: np.ndarray) -> np.ndarray:
    found = by_group(r, g, grpo(1, 1e-6, False))
    found[g == 8] = np.nan
    return found


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fanout.counted": (fanned(), {"rollout": "rollout"}),
    "sign.flipped": (plain(lambda r, g: -by_group(r, g, grpo(1, 1e-6, False))), {}),
    "lead.unmasked": (plain(lambda r, g: by_group(r, g, unmasked)), {}),
    "lead.scaled": (plain(lambda r, g: F32(4) * by_group(r, g, pass_k(None))), {}),
    "normalized.twice": (ragged(), {}),
    "length.weighted": (
        plain(lambda r, g: by_group(r, g, dr_grpo) / LENGTHS.astype(F32), tokens=LENGTHS),
        {"length": "tokens"},
    ),
    "group.split": (plain(split), {}),
    "padding.counted": (plain(padded), {}),
    "lone.nan": (plain(lonely), {}),
    "filtered.counted": (
        plain(lambda r, g: by_group(r, g, grpo(1, 1e-6, False)), trained=KEPT),
        {"trained": "trained"},
    ),
    "group.merged": (merged(), {"group": ["task", "agent"]}),
    "mask.unequal": (masked(), {"mask": "mask"}),
    "turn.index": (indexed(), AS_TURNS),
    "group.lost": (plain(lambda r, g: np.zeros(len(r), F32)), {}),
}


@pytest.mark.parametrize("fault", CASES)
def test_a_fault_is_named(fault: str) -> None:
    columns, options = CASES[fault]
    row = ot.trainers.audit(pl.DataFrame(columns), **options).row(0, named=True)
    assert (row["fault"], row["message"].split(";")[0]) == (fault, FAULTS[fault])
    assert row["explained"] < 1.0 and row["rows"]


def test_advantages_of_tokens_are_judged_where_the_mask_trains() -> None:
    columns = masked()
    right = [
        [value * flag for value, flag in zip(values, mask, strict=True)]
        for values, mask in zip(columns["advantage"], columns["mask"], strict=True)
    ]
    row = ot.trainers.audit(pl.DataFrame(columns | {"advantage": right}), mask="mask").row(0, named=True)
    assert (row["rule"], row["explained"], row["fault"]) == ("dr_grpo", 1.0, None)
    everywhere = [[values[0]] * 3 + [0.0] for values in right]
    masks = [[1, 1, 0, 0]] * len(right)
    dump = pl.DataFrame(columns | {"advantage": everywhere, "mask": masks})
    row = ot.trainers.audit(dump, mask="mask").row(0, named=True)
    assert (row["rule"], row["fault"]) == ("dr_grpo", "mask.unequal")
    assert row["explained"] == pytest.approx(1 / 33), "a group of one has 0, which no mask moves"
    lacking = [[0.0, *values[1:]] for values in right]
    row = ot.trainers.audit(pl.DataFrame(columns | {"advantage": lacking}), mask="mask").row(0, named=True)
    assert row["fault"] == "mask.unequal"
    varied = [[values[0], 2 * values[0] + 1, *values[2:]] for values in right]
    row = ot.trainers.audit(pl.DataFrame(columns | {"advantage": varied}), mask="mask").row(0, named=True)
    assert row["fault"] is None and row["explained"] < 0.2
    bare = pl.DataFrame(columns | {"advantage": [values[:1] for values in right]}).drop("mask")
    assert ot.trainers.audit(bare)["explained"].item() == 1.0
    nothing = columns | {"advantage": [[] for _ in right], "mask": [[] for _ in right]}
    message = ot.trainers.audit(pl.DataFrame(nothing), mask="mask")["message"].item()
    assert message == "no row has a reward and a trained token"


def test_lengths_of_masks_weigh() -> None:
    columns = masked()
    tokens = np.array([sum(mask) for mask in columns["mask"]], F32)
    rewards, groups = columns["reward"], columns["group"]
    weighted = by_group(rewards, groups, dr_grpo) / tokens
    lists = [
        [float(one) * flag for flag in mask] for one, mask in zip(weighted, columns["mask"], strict=True)
    ]
    row = ot.trainers.audit(pl.DataFrame(columns | {"advantage": lists}), mask="mask").row(0, named=True)
    assert row["fault"] == "length.weighted"


def test_noise_of_equal_rewards_is_named() -> None:
    rewards, groups = step()
    rewards[:4] = 0.35
    dump = pl.DataFrame({"reward": rewards, "group": groups, "advantage": noisy(rewards, groups)})
    row = ot.trainers.audit(dump).row(0, named=True)
    assert (row["fault"], row["rows"]) == ("noise.equal", [0, 1, 2, 3])


def test_every_fault_has_a_case() -> None:
    assert set(CASES) | {"noise.equal"} == set(FAULTS)


def test_what_nothing_explains_is_said() -> None:
    rewards, groups = step()
    advantages = np.random.default_rng(9).normal(size=len(rewards))
    row = ot.trainers.audit(pl.DataFrame({"reward": rewards, "group": groups, "advantage": advantages})).row(
        0, named=True
    )
    assert row["fault"] is None and row["explained"] < 0.2
    assert row["message"].startswith("no rule and no known fault explains")


def test_each_step_is_judged_by_itself() -> None:
    first, second = step(1), step(2)
    advantages = np.concatenate([by_group(*first, dr_grpo), -by_group(*second, rloo)])
    dump = pl.DataFrame(
        {
            "step": np.repeat([7, 8], len(first[0])),
            "reward": np.concatenate([first[0], second[0]]),
            "group": np.concatenate([first[1], second[1]]),
            "advantage": advantages,
        }
    )
    found = ot.trainers.audit(dump, step="step")
    assert found.select("step", "rule", "fault").rows() == [
        ("7", "dr_grpo", None),
        ("8", "rloo", "sign.flipped"),
    ]
    assert found["rows"][1][0] >= len(first[0]), "rows are those of the dump"


def test_rewards_that_are_absent_are_of_no_group() -> None:
    """As TRL has them: what no function scored is out of the mean, and may have any advantage."""
    dump = pl.DataFrame(
        {
            "math": [1.0, None, 0.0, None],
            "code": [None, None, 0.5, 0.5],
            "prompt": ["a"] * 4,
            "advantage": [1 / 3, 0.0, -1 / 6, -1 / 6],
        }
    )
    row = ot.trainers.audit(dump, reward=["math", "code"], group="prompt").row(0, named=True)
    assert (row["rule"], row["fault"]) == ("dr_grpo", None)


def test_groups_of_several_columns_and_any_names() -> None:
    """As rLLM compares: within task and agent. Columns may be called as those of the answer."""
    dump = pl.DataFrame(
        {
            "row": ["t", "t", "t", "t"],
            "rule": ["solver", "judge", "solver", "judge"],
            "reward": [1.0, 0.0, 0.0, 3.0],
            "advantage": [0.5, -1.5, -0.5, 1.5],
        }
    )
    row = ot.trainers.audit(dump, group=["row", "rule"]).row(0, named=True)
    assert (row["n_groups"], row["rule"], row["fault"]) == (2, "dr_grpo", None)


def test_a_step_without_rewards_is_not_explained() -> None:
    dump = pl.DataFrame({"reward": [None, None], "group": ["a", "a"], "advantage": [0.0, 1.0]})
    row = ot.trainers.audit(dump).row(0, named=True)
    assert (row["rule"], row["explained"], row["message"]) == (None, None, "no row has a reward")


def test_a_deviation_of_the_batch_leaves_out_what_has_no_reward() -> None:
    """As TRL divides with `scale_rewards="batch"`, where one completion has no score."""
    rewards, groups = step()
    scored = rewards[1:]
    advantages = np.append(np.nan, by_group(scored, groups[1:], dr_grpo) / (scored.std(ddof=1) + 1e-4))
    dump = pl.DataFrame({"reward": [None, *scored], "group": groups, "advantage": advantages})
    row = ot.trainers.audit(dump).row(0, named=True)
    assert (row["rule"], row["variant"]) == ("reinforce_pp", "baseline=True ddof=1 epsilon=0.0001")
    assert row["fault"] is None


def test_small_dumps_say_that_rules_cannot_be_told_apart() -> None:
    dump = pl.DataFrame({"reward": [1.0, 1.0], "group": ["a", "a"], "advantage": [0.0, 0.0]})
    row = ot.trainers.audit(dump).row(0, named=True)
    assert row["n_equivalent"] > 10 and row["fault"] is None
    assert ot.trainers.audit(dump.clear()).is_empty()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"reward": "rewards"}, "reward: unknown column 'rewards'; did you mean 'reward'?"),
        ({"reward": ["a", "b"]}, {}, "column 'reward' has type String, expected a number in each row"),
        ({"group": ["a", None]}, {}, "group: column 'group' has a null, expected a value in each row"),
        ({"ro": ["x", "x"], "group": ["a", "b"]}, {"rollout": "ro"}, "group differs within a rollout"),
    ],
)
def test_slips(change: dict[str, Any], options: dict[str, Any], message: str) -> None:
    columns = {"reward": [1.0, 0.0], "group": ["a", "a"], "advantage": [0.5, -0.5]} | change
    with pytest.raises(ot.ParameterError) as caught:
        ot.trainers.audit(pl.DataFrame(columns), **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": []}, r"group is \[\], expected"),
        ({"reward": {}}, "reward is a value of type dict, expected"),
        ({"group": ["group", "group"]}, r"group is \['group', 'group'\], expected"),
        ({"trained": "name"}, "column 'name' has type String"),
        ({"length": "endless"}, "column 'endless' has an infinite number"),
    ],
)
def test_wrong_options_of_an_audit_are_named(options: dict[str, Any], message: str) -> None:
    rows = {"reward": [1.0, 0.0], "group": ["a", "a"], "advantage": [0.5, -0.5]}
    rows |= {"name": ["x", "y"], "endless": [1.0, float("inf")]}
    with pytest.raises(ot.ParameterError, match=message):
        ot.trainers.audit(pl.DataFrame(rows), **options)
