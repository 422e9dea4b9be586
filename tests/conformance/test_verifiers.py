"""Advantages on episodes of the package itself: of a published run, and some that it makes here."""

import asyncio
import gzip
import inspect
import itertools
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

vf = pytest.importorskip(
    "verifiers.v1.episode", exc_type=ImportError, reason="verifiers is not installed: make conformance"
)

import orchestrace as ot  # noqa: E402
from orchestrace.trainers import verifiers  # noqa: E402

CORPORA = os.environ.get("ORCHESTRACE_CORPORA", "")


@pytest.mark.skipif(not CORPORA, reason="ORCHESTRACE_CORPORA names no published corpora")
@pytest.mark.parametrize("method", ["dr_grpo", "hierarchical_grpo"])
def test_live_episodes_get_what_the_export_writes(method: str, tmp_path: Path) -> None:
    packed = Path(CORPORA, "verifiers", "kuhn-train", "traces.jsonl.gz")
    lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
    episodes = [vf.Episode.model_validate_json(line) for line in lines]
    source = tmp_path / "traces.jsonl"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = ot.read_traces(source)
    credits: Any = ot.credit(corpus, method=method, unit="turn", reward="payoff")
    ot.export(corpus, "verifiers", tmp_path / "out.jsonl", credits=credits)
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert verifiers.assign(episodes, method, reward="payoff") > 0
    live = {one.id: [[node.advantages for node in trace.nodes] for trace in one.traces] for one in episodes}
    filed = {
        one["id"]: [[node.get("advantages") for node in trace["nodes"]] for trace in one["traces"]]
        for one in written
    }
    assert live == filed


# --- episodes that it makes here --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Bytes as tokens, with a template of two marks."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    alphabet, decoder = tokenizers.pre_tokenizers.ByteLevel, tokenizers.decoders.ByteLevel()
    marks = ["<|end|>", "<|user|>", "<|agent|>"]
    names = [*sorted(alphabet.alphabet()), *marks]
    raw = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={name: at for at, name in enumerate(names)}, merges=[])
    )
    raw.pre_tokenizer = alphabet(add_prefix_space=False)
    raw.decoder = decoder
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token=marks[0], pad_token=marks[0], additional_special_tokens=marks[1:]
    )
    made.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'assistant' %}<|agent|>{{ m['content'] }}<|end|>"
        "{% else %}<|user|>{{ m['content'] }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|agent|>{% endif %}"
    )
    made.name_or_path = str(tmp_path_factory.mktemp("tokenizer"))
    made.save_pretrained(made.name_or_path)
    return made


@pytest.fixture
def model(tokenizer: Any) -> Iterator[str]:
    """A server of tokens on this machine, which is wrong at every third call; its address."""
    calls = itertools.count()

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            number = next(calls)
            right = "5" if "2 + 3" in tokenizer.decode(body["token_ids"]) else "9"
            text = "the sum is " + right if number % 3 else "7"
            ids = [*tokenizer.encode(text), tokenizer.eos_token_id]
            likely: list[dict[str, Any]] = [
                {"token": f"token_id:{i}", "logprob": -0.25, "bytes": None, "top_logprobs": []} for i in ids
            ]
            choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": {"content": likely}}
            answer = {"request_id": f"r{number}", "prompt_token_ids": body["token_ids"], "choices": [choice]}
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


async def episodes_of(address: str, tokenizer: Any) -> list[Any]:
    """Four rollouts of each task, by the client that trainers use."""
    game, v1 = import_module("sums_of_two"), import_module("verifiers.v1")
    clients = import_module("verifiers.v1.clients")
    role = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    agents = {"planner": role, "solver": role}
    env = game.SumEnv(game.SumConfig(id="sums_of_two", taskset={"id": "sums_of_two"}, **agents))
    client = clients.TrainClientConfig(
        base_url=address,
        api_key_var="OPENAI_API_KEY",
        renderer_model_name=tokenizer.name_or_path,
        renderer={"name": "default"},
    )
    takes_sampling = "sampling" in inspect.signature(clients.ModelContext).parameters
    context = clients.ModelContext(
        model="m", client=client, **({"sampling": v1.SamplingConfig()} if takes_sampling else {})
    )
    async with env.serving():
        return [await env.run_slot(slot, context) for task in env.taskset for slot in env.slots(task, 4)]


def test_episodes_of_two_agents_are_made_credited_and_loaded_again(
    model: str, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many advantages as tokens are trained, at nodes that were sampled, and nothing else changes."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    episodes = asyncio.run(episodes_of(model, tokenizer))
    assert len(episodes) == 8
    assert [error for one in episodes for path in one.traces for error in path.errors] == []
    assert all(one.ok for one in episodes)
    source = tmp_path / "traces.jsonl"
    lines = [one.model_dump_json(exclude_none=True) for one in episodes]
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = ot.read_traces(source)
    assert corpus.records["used"] == 8 and corpus.quarantine.collect().is_empty()
    (reward,) = {name for name in corpus.reward_channels() if name.endswith("right")}
    before = [vf.WireEpisode.model_validate_json(line) for line in lines]
    for method in ("dr_mas", "magrpo", "shapley"):
        credits = ot.credit(corpus, method=method, unit="turn", reward=reward)
        target = tmp_path / f"{method}.jsonl"
        ot.export(corpus, "verifiers", target, credits=credits)
        after = [vf.WireEpisode.model_validate_json(line) for line in target.read_text("utf-8").splitlines()]
        nodes = [node for one in after for trace in one.traces for node in trace.nodes]
        sampled = [node for node in nodes if node.sampled]
        assert len(sampled) == 16
        assert all(len(node.advantages) == sum(node.mask) > 0 for node in sampled)
        assert all(node.advantages is None for node in nodes if not node.sampled)
        for node in sampled:
            node.advantages = None
        assert after == before
