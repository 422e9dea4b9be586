"""Credit inside the GRPO of TRL: a tiny model of random weights is trained, and the loss gets ours."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from conformance.fault_classes import recorded, written

trl = pytest.importorskip("trl", reason="TRL is not installed: make conformance")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
datasets = pytest.importorskip("datasets")

from orchestrace.trainers.rule_rewards import RuleReward  # noqa: E402
from orchestrace.trainers.trl import WithCredit  # noqa: E402

STEPS = 20
SIZE = 4
WORDS = ["<pad>", "<eos>", *"abcdefgh"]


class Recorder(WithCredit, trl.GRPOTrainer):  # type: ignore[misc,name-defined]
    """Keeps what goes into the loss, and what the rollouts were."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.seen.append(
            {
                "advantages": output["advantages"].clone(),
                "mask": output["completion_mask"].clone(),
                "rewards": self._rewards[:, 0].tolist(),
                "turns": self._columns.get("turn_rewards"),
                "prompts": [one["prompt"] for one in inputs],
            }
        )
        return output


def reward(completions: list[str], **_: Any) -> list[float]:
    """How often the answer says "a", which a model can learn, and a part by its length."""
    return [text.count("a") + 0.01 * len(text) for text in completions]


def team(prompts: list[str], made: Recorder) -> dict[str, Any]:
    """A solver answers, the environment says "h", a checker answers."""
    start = made.processing_class(prompts, return_tensors="pt")["input_ids"]
    drawn = {"do_sample": True, "min_new_tokens": 2, "max_new_tokens": 2, "pad_token_id": 0}
    solved = made.model.generate(start, **drawn)
    told = torch.full((len(prompts), 1), WORDS.index("h"))
    checked = made.model.generate(torch.cat([solved, told], dim=1), **drawn)
    completions = checked[:, start.shape[1] :].tolist()
    a = WORDS.index("a")
    return {
        "prompt_ids": start.tolist(),
        "completion_ids": completions,
        "logprobs": None,
        "env_mask": [[1, 1, 0, 1, 1] for _ in prompts],
        "agents": [["solver", "checker"] for _ in prompts],
        "turn_rewards": [[float(one[:2].count(a)), float(one[3:].count(a))] for one in completions],
    }


def paid(completions: list[str], turn_rewards: list[list[float]], **_: Any) -> list[float]:
    return [sum(turns) for turns in turn_rewards]


def parts() -> tuple[Any, Any]:
    """A tiny model of random weights, and its tokenizer."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="a"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="<pad>", eos_token="<eos>"
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config), tokenizer


def arguments(folder: Path, **more: Any) -> Any:
    return trl.GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=2 * SIZE,
        num_generations=SIZE,
        max_completion_length=6,
        learning_rate=3e-2,
        beta=0.0,
        report_to=[],
        use_cpu=True,
        bf16=False,
        logging_steps=1,
        save_strategy="no",
        seed=0,
        **more,
    )


def trainer(folder: Path, method: str, rollouts: Any = None, **options: Any) -> Recorder:
    model, tokenizer = parts()
    made = Recorder(
        model,
        reward_funcs=reward if rollouts is None else paid,
        rollout_func=rollouts,
        args=arguments(folder, max_steps=STEPS),
        train_dataset=datasets.Dataset.from_dict({"prompt": ["b", "c", "d", "e"] * STEPS}),
        processing_class=tokenizer,
        credit_method=method,
        credit_options=options,
    )
    made.seen = []
    return made


def offline(step: dict[str, Any], method: str, **params: Any) -> list[float]:
    """The advantage of each rollout, from a recording of the step as a stranger would write it."""
    lines = []
    for row, (prompt, outcome) in enumerate(zip(step["prompts"], step["rewards"], strict=True)):
        event = {"id": "answer", "t": 0, "type": "message", "agent": "policy"}
        event["tokens_out"] = int(step["mask"][row].sum())
        lines.append(
            {
                "trace_id": f"r{row:02}",
                "task_id": f"{prompt}{row // SIZE}",
                "events": [event],
                "edges": [],
                "rewards": {"team": outcome},
                "costs": {"tokens": 0, "wall_clock_s": 0},
            }
        )
    corpus = ot.read_traces(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    table = ot.credit(corpus, method=method, unit="event", **params)
    credits: list[float] = table.sort("trace")["credit"].to_list()
    return credits


@pytest.mark.parametrize("method", ["dr_grpo", "opo"])
def test_the_loss_gets_what_the_recording_says(method: str, tmp_path: Path) -> None:
    made = trainer(tmp_path, method)
    made.train()
    assert len(made.seen) == STEPS
    for step in made.seen:
        rows = np.array(offline(step, method), dtype=np.float32)
        wanted = np.where(step["mask"].numpy() > 0, rows[:, None], np.float32(0))
        assert np.array_equal(step["advantages"].numpy(), wanted), "bit for bit"
    history = [entry["reward"] for entry in made.state.log_history if "reward" in entry]
    assert np.mean(history[-5:]) > np.mean(history[:5]), "the model learns what is paid"


def test_ours_is_theirs_where_the_rule_is_the_same(tmp_path: Path) -> None:
    """GRPO with TRL's own epsilon: the numbers that TRL would have used."""
    made = trainer(tmp_path, "grpo", epsilon=1e-4)
    made.train()
    logged = list(made._logs["advantages"])  # those of the last step, by TRL
    last = made.seen[-1]
    ours = [float(row[0]) for row in last["advantages"]]
    assert np.allclose(ours, logged[-len(ours) :], atol=1e-5)


def test_each_turn_gets_its_own(tmp_path: Path) -> None:
    """What a turn and those after it earned, for two agents; the environment between them gets nothing."""
    made = trainer(tmp_path, "return_to_go", team, turns="mask", rewards="turn", gamma=1.0)
    made.train()
    for step in made.seen:
        for row, (first, second) in enumerate(step["turns"]):
            wanted = [first + second, first + second, 0.0, second, second]
            assert step["advantages"][row].tolist() == wanted


def test_agents_are_compared_with_themselves(tmp_path: Path) -> None:
    """A method across agents: the outcome, relative to the turns of the same agent in the group."""
    made = trainer(tmp_path, "dr_mas", team, turns="mask")
    made.train()
    for step in made.seen:
        for group in range(len(step["rewards"]) // SIZE):
            mine = slice(group * SIZE, (group + 1) * SIZE)
            outcomes = np.array(step["rewards"][mine])
            spread = outcomes.std(ddof=1)
            rows = (outcomes - outcomes.mean()) / (spread + 1e-6) if spread else np.zeros(SIZE)
            found = step["advantages"][mine].numpy()
            assert np.allclose(found, rows[:, None] * np.array([1, 1, 0, 1, 1]), atol=1e-6)


@pytest.mark.parametrize("method", ["dr_grpo", "opo"])
def test_two_processes_get_what_the_recording_says(method: str, tmp_path: Path) -> None:
    """Each has half of the completions, and the groups are those of all: lengths and rewards are gathered."""
    script = Path(__file__).with_name("two_processes.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, "-P", *launch, str(script), str(tmp_path), method]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1)]
    for one, two in zip(*ranks, strict=True):
        assert one["rewards"] == two["rewards"], "of all completions"
        width = max(len(half["mask"][0]) for half in (one, two))
        padded = [np.pad(half["mask"], ((0, 0), (0, width - len(half["mask"][0])))) for half in (one, two)]
        masks = np.concatenate(padded)
        step = {"mask": masks, "rewards": one["rewards"], "prompts": one["prompts"] + two["prompts"]}
        rows = np.array(offline(step, method), dtype=np.float32)
        for half, own in ((one, rows[: 2 * SIZE]), (two, rows[2 * SIZE :])):
            wanted = np.where(np.array(half["mask"]) > 0, own[:, None], np.float32(0))
            assert np.array_equal(np.array(half["advantages"], np.float32), wanted), "bit for bit"


def test_a_rule_is_a_reward_function(tmp_path: Path) -> None:
    """Tokens cost: the column of the log has what each completion was paid."""
    model, tokenizer = parts()
    made = trl.GRPOTrainer(
        model,
        reward_funcs=[reward, RuleReward("tokens", weight=0.01)],
        args=arguments(tmp_path, max_steps=1, log_completions=True),
        train_dataset=datasets.Dataset.from_dict({"prompt": ["b", "c"]}),
        processing_class=tokenizer,
    )
    made.train()
    (path,) = (tmp_path / "completions").iterdir()
    paid = pl.read_parquet(path)["tokens"].to_list()
    assert len(paid) == 2 * SIZE and all(-0.0601 < one < -0.0099 for one in paid)


# --- the classes of wrong advantages, in the tables that it writes ----------------------------------------

PAID: dict[str, list[float | None]] = {
    "b": [0.05, 0.95, 0.35, 0.6, 0.2, 0.15, 0.8, 0.5],
    "d": [0.1, 0.9, 0.3, 0.3, 0.2, 0.2, 0.2, 0.7],
    "e": [0.05, 0.9, 0.35, 0.65, 0.2, 0.1, 0.8, 0.55],
    "f": [*[0.35] * SIZE, 0.1, 0.4, 0.2, 0.9],
    "h": [0.2, None, 0.7, 0.4, 0.1, 0.5, None, 0.8],
    "j": [0.1, 0.2, 0.9, 0.4, 0.3, 0.6, 0.2, 0.1],
}
"""Rewards of two groups of four; what nobody scored is as good as filtered out. The other classes are of rows
that TRL does not have: every completion is a rollout, every group has one size, and a table has no masks."""
SCALES = {f"scale_rewards={scale}": {"scale_rewards": scale} for scale in ("group", "batch", "none")}
SCALES["multi_objective_aggregation=normalize_then_sum"] = {
    "multi_objective_aggregation": "normalize_then_sum"
}


def judged(folder: Path, letter: str, options: dict[str, Any]) -> str:
    def exact(completions: list[str], **_: Any) -> list[float | None]:
        return PAID[letter]

    def brief(completions: list[str], **_: Any) -> list[float | None]:
        return [None if paid is None else 0.5 * paid * paid for paid in PAID[letter]]

    model, tokenizer = parts()
    made = trl.GRPOTrainer(
        model,
        reward_funcs=[exact, brief],
        args=arguments(folder, max_steps=1, log_completions=True, **options),
        train_dataset=datasets.Dataset.from_dict({"prompt": ["b", "c"]}),
        processing_class=tokenizer,
    )
    made.train()
    rewards = {"exact": 1.0, "brief": 1.0}
    row = ot.trainers.audit(folder / "completions", trainer="trl", reward=rewards).row(0, named=True)
    return "holds" if row["explained"] == 1.0 else row["fault"] or "unexplained"


def test_what_the_audit_says_of_each_class_is_what_the_documents_say(tmp_path: Path) -> None:
    found = {
        name: {letter: judged(tmp_path / f"{at}{letter}", letter, options) for letter in PAID}
        for at, (name, options) in enumerate(SCALES.items())
    }
    written("trl", found)
    assert found == recorded("trl", found)
