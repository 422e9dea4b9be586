"""No amount that a recording states is without effect: another one gives another number or finding."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

RECORDINGS = Path(__file__).parents[2] / "data/importers"

#: Amounts that say nothing of what a run took, or that another record says again, with the reason.
WITHOUT_EFFECT = {
    "claude_code": {
        # a record of the same response that comes later says more
        "message.usage.output_tokens": 2,
        # how full the context was
        "compactMetadata.preTokens": 1,
    },
    # Running totals are compared where they end; of a thread that was copied they are the other's.
    "codex": {
        "payload.info.total_token_usage": 26,
        "payload.info.last_token_usage": 15,
    },
    # How long the request of a compaction took, which is no amount.
    "copilot": {"data.compactionTokensUsed.duration": 1},
    # The sum over all samples of a file, and totals beside the parts of a sample.
    "inspect": {"stats.model_usage": 3, "samples.model_usage.lab/small.total_tokens": 2},
    # Of two versions of an observation the fuller one is read, and its details before its columns.
    "langfuse": {"trace.observations": 15, "observations.totalCost": 5},
    # Parts of the root's total, and runs whose columns are 0 since nobody counted.
    "langsmith": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 2},
    # How full the context was, and a duration, which is no amount of tokens.
    "kimi": {"tokensBefore": 1, "tokensAfter": 1, "event.llmFirstTokenLatencyMs": 1},
    # A part of what was put out.
    "hermes": {"reasoning_tokens": 1},
    # A record that is rejected for another reason.
    "native": {"costs": 2},
    # What Opik says in its own words of what the provider said, and totals beside their parts.
    "opik": {
        "spans.usage.prompt_tokens": 3,
        "spans.usage.completion_tokens": 3,
        "spans.usage.total_tokens": 3,
        "trace.usage.prompt_tokens": 2,
        "trace.usage.completion_tokens": 2,
        "trace.usage.total_tokens": 2,
        "trace.usage.original_usage": 2,
    },
    # Earlier states of messages and sessions, which a stream sends again, and a total beside its parts.
    "opencode": {"properties.info.tokens": 17, "properties.info.cost": 3},
    "openhands": {
        # how full the context was, and when a response was paid
        "stats.usage_to_metrics.agent.token_usages.context_window": 3,
        "stats.usage_to_metrics.agent.token_usages.per_turn_token": 3,
        "stats.usage_to_metrics.agent.costs.timestamp": 3,
        "metrics.costs.timestamp": 3,
        # what an observation repeats of its action, and a list of what actions state
        "history.tool_call_metadata.model_response.usage": 3,
        "metrics.token_usages.cache": 2,
    },
    # Parts of a price beside their sum, and what a fork repeats: it counts in the other session.
    "pi": {"message.usage.cost": 10, "message.usage.totalTokens": 2},
    # What telemetry repeats of a message is told apart by its parts.
    "qwen_code": {
        "systemPayload.uiEvent.total_token_count": 2,
        "systemPayload.uiEvent.tool_token_count": 2,
    },
    # It counts each new token of a path once, as training does: no call used that many.
    "verifiers": {"traces.num_total_tokens": 1},
    # Numbers of requests, which no column has; totals beside their parts; sums of calls in the middle and of
    # the whole evaluation; calls that are rejected or deleted. Counts and prices beside a cost.
    "weave": {"summary.usage": 31, "summary.weave.costs": 4},
}


def amounts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Numbers below a name of tokens, usage or cost."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            yield from amounts(one, (*path, key))
    elif isinstance(value, int | float) and re.search("token|cost|usage", str(path), re.I):
        yield path, value


def with_amount(document: Any, path: tuple[Any, ...], amount: float) -> Any:
    document = json.loads(json.dumps(document))
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = amount
    return document


def documents(text: str) -> list[Any]:
    """The records of a file: a document, or one per line; what is broken stays a text."""

    def parsed(line: str) -> Any:
        try:
            return json.loads(line)
        except ValueError:
            return line

    whole = parsed(text)
    return [whole] if not isinstance(whole, str) else [parsed(line) for line in text.splitlines()]


def facts(folder: Path, format: str) -> list[Any]:
    corpus = ot.read_traces(folder, format=format)
    spent = ["tokens", "tokens_in", "tokens_out", "tokens_cached", "tokens_cache_write", "tokens_reasoning"]
    tables = [
        corpus.events.select("trace", "seq", *spent, "cost_usd", "extras"),
        corpus.measures.select("trace", pl.col("kind", "name").cast(pl.String), "value"),
        corpus.findings.select("trace", pl.col("code").cast(pl.String), "message"),
    ]
    return [sorted(table.collect().rows(), key=str) for table in tables]


@pytest.mark.parametrize("format", sorted({path.name for path in RECORDINGS.iterdir()} - {"mapping"}))
def test_an_amount_that_changes_changes_something(tmp_path: Path, format: str) -> None:
    for source in (RECORDINGS / format).glob("input*"):
        shutil.copytree(source, tmp_path / "in") if source.is_dir() else shutil.copy(source, tmp_path)
    before = facts(tmp_path, format)
    silent: dict[str, int] = {}
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        text = path.read_text()
        records = documents(text)
        for at, record in enumerate(records):
            for place, amount in amounts(record):
                changed = [*records[:at], with_amount(record, place, amount + 7), *records[at + 1 :]]
                lines = (one if isinstance(one, str) else json.dumps(one) for one in changed)
                path.write_text("\n".join(lines) + "\n")
                if facts(tmp_path, format) == before:
                    name = ".".join(key for key in place if isinstance(key, str))
                    known = [one for one in WITHOUT_EFFECT.get(format, {}) if name.startswith(one)]
                    key = max(known, key=len, default=name)
                    silent[key] = silent.get(key, 0) + 1
        path.write_text(text)
    assert silent == WITHOUT_EFFECT.get(format, {})
