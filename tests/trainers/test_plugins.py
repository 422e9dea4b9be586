"""Plug-ins, on objects in the shape of those of trainers; `make conformance` runs them inside trainers."""

import json
import pickle
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import orchestrace as ot
from orchestrace.trainers import rllm, skyrl, trl, verifiers, verl
from orchestrace.trainers.rule_rewards import RuleReward


class Tensor:
    """What plug-ins use of a tensor of torch."""

    def __init__(self, values: Any, dtype: Any = np.float32) -> None:
        self.values = np.array(values, dtype=dtype)

    def detach(self) -> "Tensor":
        return self

    cpu = detach

    def double(self) -> "Tensor":
        return Tensor(self.values, np.float64)

    def numpy(self) -> np.ndarray:
        return self.values

    def new_tensor(self, values: Any) -> "Tensor":
        return Tensor(values, self.values.dtype)

    def mul_(self, other: "Tensor") -> None:
        self.values *= other.values

    def __mul__(self, other: "Tensor") -> "Tensor":
        return Tensor(self.values * other.values, self.values.dtype)

    def __getitem__(self, rows: list[int]) -> "Tensor":
        return Tensor(self.values[rows], self.values.dtype)


PAID = [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
KEYS = ["p_1_0_0", "p_1_0_1", "p_1_1_0", "p_1_1_1"]


def estimate(method: str, **given: Any) -> list[float]:
    arguments = {"token_level_rewards": Tensor(PAID), "response_mask": Tensor(np.ones((4, 2)))}
    advantages, returns = verl.estimator(method)(**arguments, index=["p"] * 4, **given)
    assert returns is advantages
    return advantages.values[:, 0].tolist()


def test_verl_shows_rows() -> None:
    assert estimate("dr_grpo") == [-0.25, 0.75, -0.25, -0.25]
    assert estimate("grpo", config={"orchestrace": {"ddof": 0, "epsilon": 0.0}}) == pytest.approx(
        [-(3**-0.5), 3**0.5, -(3**-0.5), -(3**-0.5)]
    )


def test_verl_shows_episodes_where_the_trainer_passes_them() -> None:
    columns = {"episode_id": ["x", "x", "y", "y"], "turn_id": [0, 1, 0, 1], "agent": ["a", "b", "a", "b"]}
    assert estimate("dr_grpo", non_tensor_batch=columns) == [0.5, 0.5, -0.5, -0.5]
    with verl.rows_of(verl.sessions(KEYS)):
        assert estimate("dr_grpo") == [0.5, 0.5, -0.5, -0.5]
    assert estimate("dr_grpo") == [-0.25, 0.75, -0.25, -0.25], "outside nothing is known of them"


def test_sessions_of_verl_have_agents_where_all_rows_do() -> None:
    extras = [{"agent": name, "turn_id": 9} for name in "abab"]
    assert verl.sessions(KEYS, extras) == {
        "episode_id": ["p_1_0", "p_1_0", "p_1_1", "p_1_1"],
        "turn_id": [9, 9, 9, 9],
        "agent": ["a", "b", "a", "b"],
    }
    assert "agent" not in verl.sessions(KEYS, [*extras[:3], {}])
    with pytest.raises(ot.ParameterError, match="has the key 'p_x', expected uid_session_index"):
        verl.sessions(["p_x"])


def test_a_trainer_of_verl_knows_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trainer:
        def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> list[float]:
            return estimate("dr_grpo")

    class Team(verl.WithSessions, Trainer): ...

    def fields(keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        assert (keys, partition_id, select_fields) == (KEYS, "train", ["extra_fields"])
        return {"extra_fields": [SimpleNamespace(data={"agent": name}) for name in "abab"]}

    monkeypatch.setitem(sys.modules, "transfer_queue", SimpleNamespace(kv_batch_get=fields))
    batch = SimpleNamespace(keys=KEYS, partition_id="train")
    assert Team()._compute_advantage(batch, {}) == [0.5, 0.5, -0.5, -0.5]


def test_rows_without_an_advantage_leave_the_mask() -> None:
    rewards, mask = Tensor([[np.nan], [1.0], [0.0]]), Tensor([[1], [1], [1]], np.int64)
    given = {"token_level_rewards": rewards, "response_mask": mask, "index": ["p"] * 3}
    with pytest.raises(ot.ParameterError, match=r"reward\.absent"):
        verl.estimator("rloo")(**given)
    advantages, _ = verl.estimator("rloo")(**given, config={"orchestrace": {"null": "mask"}})
    assert mask.values[:, 0].tolist() == [0, 1, 1]
    assert advantages.values[:, 0].tolist() == [0.0, 1.0, -1.0]


class Registry:
    """SkyRL's, of functions by name."""

    functions: ClassVar[dict[str, Any]] = {}

    @classmethod
    def list_available(cls) -> list[str]:
        return list(cls.functions)

    @classmethod
    def get(cls, name: str) -> Any:
        return cls.functions[name]

    @classmethod
    def register(cls, name: str, function: Any) -> None:
        assert name not in cls.functions
        cls.functions[name] = function


class StepTrainer:
    """What SkyRL does with steps: the last of each trajectory is estimated, and stands for all."""

    cfg = SimpleNamespace(
        generator=SimpleNamespace(step_wise_trajectories=True),
        trainer=SimpleNamespace(algorithm=SimpleNamespace(advantage_estimator="orchestrace_dr_mas")),
    )

    def compute_advantages_and_returns(self, data: Any) -> Any:
        last = np.flatnonzero(data.metadata["is_last_step"]).tolist()
        estimate = Registry.functions[self.cfg.trainer.algorithm.advantage_estimator]
        rewards, mask = data["rewards"][last], data["response_mask"][last]
        data.seen, _ = estimate(token_level_rewards=rewards, response_mask=mask, index=["p"] * len(last))
        data["advantages"] = data["returns"] = None
        return data


class Steps(dict[str, Any]):
    metadata: dict[str, Any]
    seen: Any


def test_skyrl_estimates_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "functions", {})
    monkeypatch.setitem(
        sys.modules,
        "skyrl.backends.skyrl_train.utils.ppo_utils",
        SimpleNamespace(AdvantageEstimatorRegistry=Registry),
    )
    names = skyrl.register(dr_mas={"epsilon": 0.0})
    assert names == skyrl.register() and set(names) == set(Registry.functions)
    with pytest.raises(ot.ParameterError, match="'dr_mass'; did you mean 'dr_mas'"):
        skyrl.register(dr_mass={})
    with pytest.raises(ot.ParameterError, match=r"orchestrace_dr_mas is registered with {'epsilon': 0.0}"):
        skyrl.register(dr_mas={})
    # Ray sends estimators to workers: the options go along
    assert pickle.loads(pickle.dumps(Registry.get("orchestrace_dr_mas"))).options == {"epsilon": 0.0}

    class Team(skyrl.WithSteps, StepTrainer): ...

    data = Steps(rewards=Tensor(PAID), response_mask=Tensor(np.ones((4, 2))))
    data.metadata = {"is_last_step": [False, True, False, True], "uids": ["p"] * 4, "agents": list("abab")}
    answer = Team().compute_advantages_and_returns(data)
    half = 0.5**0.5
    assert answer["advantages"].values[:, 1].tolist() == pytest.approx([half, half, -half, -half])
    assert answer.seen.values[:, 1].tolist() == pytest.approx([half, -half]), "its own metrics see them too"


def test_skyrl_leaves_steps_out_of_the_loss_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimator sees no mask of the loss: there, a row without an advantage is an error."""
    monkeypatch.setattr(Registry, "functions", {})
    monkeypatch.setitem(
        sys.modules,
        "skyrl.backends.skyrl_train.utils.ppo_utils",
        SimpleNamespace(AdvantageEstimatorRegistry=Registry),
    )
    skyrl.register(dr_mas={"null": "mask"})
    rewards = Tensor([[np.nan], [1.0], [0.0]])
    with pytest.raises(ot.ParameterError, match=r"reward\.absent"):
        Registry.get("orchestrace_dr_mas")(rewards, Tensor(np.ones((3, 1))), ["p"] * 3)

    class Team(skyrl.WithSteps, StepTrainer): ...

    data = Steps(rewards=rewards, response_mask=Tensor(np.ones((3, 1))), loss_mask=Tensor(np.ones((3, 1))))
    data.metadata = {"is_last_step": [True] * 3, "uids": ["p"] * 3}
    answer = Team().compute_advantages_and_returns(data)
    assert answer["loss_mask"].values[:, 0].tolist() == [0, 1, 1]
    assert answer["response_mask"].values[:, 0].tolist() == [1, 1, 1]


def test_rewards_of_turns_stand_on_their_last_tokens() -> None:
    mask = np.array([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0]])
    found = trl.rewards_on(mask, np.array([1.0, np.nan]), None)
    assert found[0].tolist() == [0, 0, 0, 0, 1] and np.isnan(found[1]).tolist() == [True, *[False] * 4]
    found = trl.rewards_on(mask, np.array([1.0, 2.0]), [[0.25, 0.25], [2.0]])
    assert found.tolist() == [[0, 0, 0.25, 0, 0.75], [2, 0, 0, 0, 0]]
    # a completion that was cut off is not trained, and still has its outcome
    found = trl.rewards_on(np.array([[0, 0], [1, 1]]), np.array([1.0, 2.0]), [[0.5, 0.5], [2.0]])
    assert found.tolist() == [[0, 1], [0, 2]]
    with pytest.raises(ot.ParameterError, match="turn_rewards has 1 numbers for row 0, its mask has 2 turns"):
        trl.rewards_on(mask, np.array([1.0, 2.0]), [[0.25], [2.0]])


def episode(number: int, solved: float, judged: float) -> Any:
    def path(name: str, reward: float) -> Any:
        steps = [SimpleNamespace(response_ids=[3, 4], reward=reward, advantage=None)]
        return SimpleNamespace(name=name, reward=reward, steps=steps)

    return SimpleNamespace(
        id=f"task-7:{number}", trajectories=[path("solver", solved), path("judge", judged)]
    )


def test_rllm_has_advantages_of_steps() -> None:
    episodes = [episode(0, 1, 1), episode(1, 0, 1), episode(2, 0, 0), episode(3, 1, 1)]
    assert rllm.assign(episodes, "dr_grpo") == 8
    found = [[path.steps[0].advantage for path in one.trajectories] for one in episodes]
    assert found == [[0.25, 0.25], [0.25, 0.25], [-0.75, -0.75], [0.25, 0.25]], "the judge's is the last"
    assert rllm.assign(episodes, "dr_grpo", outcome="sum") == 8
    assert episodes[2].trajectories[0].steps[0].advantage == -0.75, "an outcome counts once"
    episodes[0].trajectories[0].steps[0].response_ids = [1] * 6
    rllm.assign(episodes, "opo")
    # 8 tokens of reward 1, 4 of 1, 4 of 0, 4 of 1
    assert episodes[0].trajectories[0].steps[0].advantage == pytest.approx(1 - 16 / 20)
    assert rllm.assign(episodes, "return_to_go", rewards="turn", gamma=1.0) == 8
    found = [[path.steps[0].advantage for path in one.trajectories] for one in episodes]
    assert found == [[2, 1], [1, 1], [0, 0], [2, 1]]
    episodes[0].trajectories[0].reward = episodes[0].trajectories[1].reward = None
    assert rllm.assign(episodes, "dr_grpo", null="mask") == 6
    assert episodes[0].trajectories[0].steps[0].advantage is None, "not known is not 0"
    assert rllm.assign([], "dr_grpo") == 0


def test_rllm_estimates_trajectories_of_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: dict[str, Any] = {}
    module = SimpleNamespace(
        register_rllm_adv_estimator=lambda name: lambda made: registry.update({name: made})
    )
    monkeypatch.setitem(sys.modules, "rllm.trainer.algorithms.advantage", module)
    assert set(rllm.register()) == set(registry)
    long = SimpleNamespace(steps=[SimpleNamespace(response_ids=[1] * 3)])
    short = SimpleNamespace(steps=[SimpleNamespace(response_ids=[1])])
    groups = [SimpleNamespace(trajectories=[long, short])]
    advantages, _ = registry["orchestrace_opo"](rewards=[np.array([1.0, 0.0])], traj_groups=groups)
    assert advantages[0].tolist() == [0.25, -0.75], "the baseline weighs tokens"
    with pytest.raises(ot.ParameterError, match=r"reward\.absent"):
        rllm.estimator("dr_grpo", null="mask")([np.array([np.nan, 0.0])])
    with pytest.raises(ot.ParameterError, match="'opoo'; did you mean 'opo'"):
        rllm.register(opoo={})


class Node(SimpleNamespace):
    advantages: list[float] | None = None


class Episode:
    """A live episode of verifiers: attributes, and its record."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record, self.id = record, record["id"]
        self.traces = [SimpleNamespace(nodes=[Node() for _ in one["nodes"]]) for one in record["traces"]]

    def model_dump_json(self) -> str:
        return json.dumps(self.record)


def test_live_episodes_of_verifiers_get_what_their_file_gets() -> None:
    bet = {"message": {"role": "assistant", "content": "[bet]"}, "sampled": True}
    bet |= {"token_ids": [1, 5, 6], "mask": [False, True, True], "logprobs": [-0.1, -0.4]}
    asked = {"message": {"role": "user", "content": "?"}, "token_ids": [1], "mask": [False]}
    episodes = []
    for number, won in enumerate([1.0, 0.0]):
        trace = {"id": f"t{number}", "task": {"key": "k"}, "agent": {"name": "player"}, "is_completed": True}
        trace |= {"nodes": [asked, bet | {"parent": 0}], "rewards": {"won": {"score": won, "weight": 1.0}}}
        record = {"id": f"e{number}", "env": {"id": "kuhn"}, "task": {"key": "hand"}, "traces": [trace]}
        episodes.append(Episode(record | {"group": {"id": "g1"}}))
    assert verifiers.assign(episodes, "dr_grpo") == 2
    found = [[node.advantages for node in one.traces[0].nodes] for one in episodes]
    assert found == [[None, [0.5, 0.5]], [None, [-0.5, -0.5]]]
    assert verifiers.assign([], "dr_grpo") == 0
    silent = Episode(episodes[1].record | {"id": "e2", "traces": []})
    assert verifiers.assign([*episodes, silent], "dr_grpo") == 2, "nobody acted in the third"
    with pytest.raises(ot.ParameterError, match="two episodes share an id"):
        verifiers.assign([episodes[0], episodes[0]], "dr_grpo")
    with pytest.raises(
        ot.ParameterError, match="method is 'rae', whose baseline goes on from batch to batch"
    ):
        verifiers.assign(episodes, "rae")
    broken = Episode(episodes[1].record)
    broken.record = broken.record | {"traces": 3}
    with pytest.raises(ot.ParameterError, match="episode 2: "):
        verifiers.assign([episodes[0], broken], "dr_grpo")


@pytest.mark.parametrize(
    ("register", "package"), [(verl.register, "verl"), (skyrl.register, "skyrl"), (rllm.register, "rllm")]
)
def test_a_trainer_that_is_not_installed_is_named(register: Any, package: str) -> None:
    if package in sys.modules:
        pytest.skip(f"{package} is installed")
    with pytest.raises(ot.ParameterError, match=f"{package} is not installed here: pip install {package}"):
        register()


def test_verl_finds_the_plug_in() -> None:
    found = [one.value for one in entry_points(group="verl.plugins") if one.name == "orchestrace"]
    declared = 'orchestrace = "orchestrace.trainers.verl:plugin"'
    assert declared in (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert found in ([], ["orchestrace.trainers.verl:plugin"]), "what is installed says the same"


def test_importing_plug_ins_imports_no_trainer() -> None:
    names = ["verl", "skyrl", "trl", "rllm", "verifiers"]
    code = f"import sys; from orchestrace.trainers import {', '.join(names)}; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "ray", "transformers", *names} & set(loaded.split())


# --- rules as reward functions ----------------------------------------------------------------------------


def test_rules_pay_completions() -> None:
    """As `rewards.compute` pays the same runs; None where the rule has no answer."""
    listing = {"type": "function", "function": {"name": "ls", "arguments": "{}"}}
    other = {"type": "function", "function": {"name": "ls", "arguments": '{"path": "/"}'}}
    result = {"role": "tool", "content": "x"}

    def calls(*made: dict[str, Any]) -> list[dict[str, Any]]:
        answers = ({"role": "assistant", "content": "", "tool_calls": [one]} for one in made)
        return [message for answer in answers for message in (answer, result)]

    completions = [calls(listing, listing), calls(listing, other), calls(listing, listing, other), []]
    completions[3] = [{"role": "assistant", "content": "nothing"}]
    prompts = [[{"role": "user", "content": "What is there?"}]] * 4
    assert RuleReward("distinct_calls")(prompts, completions) == [0.5, 1.0, pytest.approx(2 / 3), None]
    assert RuleReward("distinct_calls").__name__ == "distinct_calls"


def test_tokens_of_completions_are_paid() -> None:
    rule = RuleReward("tokens", weight=0.5)
    assert rule(["a", "a"], ["x", "y"], completion_ids=[[5, 6, 7], [5]], trainer_state=None) == [-1.5, -0.5]
    assert rule(["a", "a"], ["x", "y"]) == [None, None], "nobody knows how many"


def test_completions_of_any_kind_are_paid_or_refused() -> None:
    picture = [{"role": "user", "content": [{"type": "image", "image": object()}]}]
    assert RuleReward("tokens")([picture], ["x"], completion_ids=[[1, 2]]) == [-2.0]
    assert RuleReward("tokens")([], []) == []
    with pytest.raises(ot.ParameterError, match="there are 2 prompts and 1 completions"):
        RuleReward("tokens")(["a", "b"], ["x"])


def test_rules_that_pay_others_are_refused() -> None:
    with pytest.raises(ot.ParameterError, match="rule 'agent' pays agent, expected a rule"):
        RuleReward("agent")(["a"], ["x"])
    with pytest.raises(ot.ParameterError, match="unknown reward 'agnt'; did you mean 'agent'"):
        RuleReward("agnt")(["a"], ["x"])
