"""Credit methods written in Python: registered, checked and rolled up like those of the core."""

import inspect
import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace import _core
from orchestrace.base.schema import CREDITS
from orchestrace.corpus.owners import owners
from orchestrace.credit import registry
from orchestrace.credit.parameters import shown


@pytest.fixture(autouse=True)
def _registered_here_only(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.registered()
    monkeypatch.setattr(registry, "_METHODS", registry.registered())


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.generate(traces=80, seed=4)


def even(corpus: ot.Corpus, rewards: pl.DataFrame, params: dict[str, object], seed: int) -> ot.EventValues:
    """What `uniform` does, once more."""
    events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
    return ot.EventValues(events.select(value=pl.col("amount") / pl.len().over("trace")).collect())


def late(corpus: ot.Corpus, rewards: pl.DataFrame, params: dict[str, float], seed: int) -> ot.EventValues:
    """What `discounted` does, once more."""
    events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
    after = pl.len().over("trace") - 1 - pl.int_range(pl.len()).over("trace")
    events = events.sort("trace", "t", "seq").with_columns(value=pl.col("amount") * params["gamma"] ** after)
    return ot.EventValues(events.sort("trace", "seq").select("value").collect())


@pytest.mark.parametrize("unit", ot.list_methods()["units"][0])
@pytest.mark.parametrize("reward", ["team", {"team": 1.0, "tool": -0.5}])
def test_values_are_rolled_up_as_those_of_the_core(corpus: ot.Corpus, unit: str, reward: object) -> None:
    ot.credit_method("even", summary="", quantity="share")(even)
    gamma = ot.Param("gamma", 0.9, "")
    ot.credit_method("late", summary="", quantity="advantage", params=[gamma])(late)
    for own, core, options in (("even", "uniform", {}), ("late", "discounted", {"gamma": 0.9})):
        pair = [
            ot.credit(corpus, method=name, unit=unit, reward=reward, **options).drop("method", "params")
            for name in (own, core)
        ]
        assert pair[0].schema == pair[1].schema
        assert_frame_equal(*pair, abs_tol=1e-12)
    assert pair[0]["credit"].null_count() > 0 or reward == "team"


def test_owners_are_those_of_the_core(corpus: ot.Corpus) -> None:
    found = owners(corpus).join(corpus.traces.select("trace", "n_events").collect(), on="trace")
    counted = found.group_by("trace", "owner").agg(share=pl.len() / pl.col("n_events").first())
    one = corpus.with_measures(pl.DataFrame({"trace": range(len(corpus)), "one": 1.0}))
    credits = ot.credit(one, method="uniform", unit="agent", reward="one")
    credits = credits.select("trace", pl.col("unit_id").alias("owner"), "credit")
    assert counted["owner"].null_count() and found["role"].n_unique() > 3
    key = ["trace", "owner"]
    there = counted.with_columns(pl.col("owner").cast(pl.String)).sort(key).rename({"share": "credit"})
    assert_frame_equal(there, credits.sort(key), abs_tol=1e-12)


def test_results_of_tools_belong_to_their_call() -> None:
    """The cases of `results_belong_to_their_call` in the core."""
    rows = [
        ("tool_call", "a", "web", 0.0),
        ("tool_call", "b", "web", 1.0),
        ("tool_call", "c", "shell", 2.0),
        ("tool_result", "browser", "web", 3.0),
        ("tool_result", "browser", "web", 4.0),
        ("tool_result", "a", "web", 5.0),
        ("tool_result", "browser", "other", 6.0),
        ("tool_result", "browser", None, 7.0),
        ("human_intervention", "a", None, 8.0),
        ("tool_call", "user", "mail", 9.0),
        ("tool_result", "post", "mail", 10.0),
    ]
    events = pl.DataFrame(rows, schema=["type", "agent", "tool", "t"], orient="row")
    events = events.with_row_index("id").with_columns(pl.col("id").cast(pl.String), trace=0)
    edges = pl.DataFrame(
        {"trace": 0, "src": [0, 2, 7], "dst": [4, 4, 0], "type": ["causal", "return", "causal"]}
    )
    corpus = ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": [0], "trace_id": ["t"]}), events=events, edges=edges
    )
    found = owners(corpus)["owner"].cast(pl.String).to_list()
    assert found == ["a", "b", "c", "b", "c", "a", None, None, None, None, None]


def test_methods_of_both_kinds_are_listed_and_found() -> None:
    listed = ot.list_methods()
    names = listed["name"].to_list()
    assert names == [
        *(str(one["name"]) for one in _core.methods()),
        *("remax", "gdpo", "rae", "hierarchical_grpo", "ccpo", "turn_credit", "igpo", "aristocrat", "coma"),
        *("hca", "dae", "rudder", "vdn", "qmix"),
    ]
    assert set(listed.filter(pl.col("name").is_in(["vdn", "hca"]))["tier"]) == {"surrogate"}
    ot.credit_method("mine_alone", summary="", quantity="share")(even)
    assert ot.list_methods()["name"].to_list() == [*names, "mine_alone"]
    for wrong, near in (("mine_alon", "mine_alone"), ("rudde", "rudder"), ("flwo", "flow")):
        with pytest.raises(ot.ParameterError, match=f"unknown method '{wrong}'; did you mean '{near}'\\?"):
            ot.credit(ot.generate(traces=1, seed=0), method=wrong)


def test_mistakes_are_told_in_the_words_of_the_core(corpus: ot.Corpus) -> None:
    flow = next(one for one in _core.methods() if one["name"] == "flow")
    ranges = {"retention": (0.0, 1.0), "tau": (0.0, None)}
    params = [
        ot.Param("retention", 0.1, "", low=0, high=1),
        ot.Param("tau", None, "", kind=float, low=0),
        ot.Param("program_order", False, ""),
    ]
    ot.credit_method("mine", summary="", quantity="share", units=["agent"], params=params)(even)
    described = {one["name"]: one for one in flow["params"]}  # type: ignore[attr-defined]  # a list of dicts
    for param in params:
        assert param.expected() == described[param.name]["kind"], ranges
    wrong: list[dict[str, object]] = [
        {"params": {"retention": 1.5}},
        {"params": {"retention": None}},
        {"params": {"retention": True}},
        {"params": {"retention": "x\n"}},
        {"params": {"tau": float("nan")}},
        {"params": {"tau": -1e-7}},
        {"params": {"program_order": 1}},
        {"params": {"retantion": 0.5}},
        {"reward": "taem"},
        {"reward": {}},
        {"reward": {"team": float("inf")}},
    ]
    for case in wrong:
        given = dict(case)
        options = given.pop("params", {})
        said = []
        for method in ("mine", "flow"):
            with pytest.raises(ot.ParameterError) as caught:
                ot.credit(corpus, method=method, unit="agent", **given, **options)  # type: ignore[call-overload, arg-type]
            said.append(str(caught.value))
        known = "retention, tau, program_order"
        assert said[0].split(" (known")[0] == said[1].split(" (known")[0]
        assert "known" not in said[0] or known in said[0] or "team" in said[0]
    with pytest.raises(ot.ParameterError, match=r"unknown unit 'event'.*\(known: agent\)"):
        ot.credit(corpus, method="mine")


def test_parameters_take_what_they_say() -> None:
    import numpy as np

    whole = ot.Param("n", 3, "", low=1, high=9)
    assert whole.check(np.int32(4)) == 4 and type(whole.check(np.int32(4))) is int
    number = ot.Param("x", 0.5, "", low=0)
    assert (number.check(2), number.check(np.float32(0.5))) == (2.0, 0.5)
    word = ot.Param("fit", "count", "", kind=("count", "logistic"))
    assert word.check("logistic") == "logistic"
    for param, value in (
        (whole, 3.0), (whole, 10), (whole, 2**70), (whole, True), (whole, "3"), (number, 10**400),
        (number, float("inf")), (number, [1.0]), (word, 3), (word, "cuont"), (word, None),
    ):  # fmt: skip
        with pytest.raises(ot.ParameterError, match=f"{param.name}"):
            param.check(value)
    for arguments in (("a b", 1, ""), ("a", "word", ""), ("a", None, "")):
        with pytest.raises(ot.ParameterError):
            ot.Param(*arguments)
    with pytest.raises(ot.ParameterError, match="n must be a whole number from 1 to 9, found 0"):
        ot.Param("n", 0, "", low=1, high=9)
    arguments = inspect.signature(ot.credit).parameters.values()
    for name in [one.name for one in arguments if one.kind is not one.VAR_KEYWORD] + ["quality", "version"]:
        with pytest.raises(
            ot.ParameterError, match=f"^parameter '{name}' has a name that credit uses itself"
        ):
            ot.Param(name, 1, "")
    for name in ("Gamma", "é", "_x", "1x", "", 3):
        refusal = "is not a valid name of a parameter: expected a-z, 0-9 and _"
        with pytest.raises(ot.ParameterError, match=refusal):
            ot.Param(name, 1, "")  # type: ignore[arg-type]
    assert [shown(x) for x in (1e-6, 1e22, 0.5, float("inf"), None, True, 'a"')] == [
        "1e-6", "1e22", "0.5", "null", "null", "true", '"a\\""',
    ]  # fmt: skip


def test_registration_is_checked() -> None:
    def register(name: str = "mine", **options: object) -> None:
        ot.credit_method(name, **{"summary": "", "quantity": "share", **options})(even)  # type: ignore[arg-type]

    same = ot.Param("a", 1, "")
    for options, message in (
        ({"name": "My method"}, "not a valid name of a method"),
        ({"name": "flow"}, "one of the package"),
        ({"name": "vdn"}, "one of the package"),
        ({"quantity": "shrae"}, "did you mean 'share'"),
        ({"units": ["agnet"]}, "did you mean 'agent'"),
        ({"axioms": ["eficiency"]}, "did you mean 'efficiency'"),
        ({"tier": "surogate"}, "did you mean 'surrogate'"),
        ({"scope": "grp"}, "scope is 'grp', expected"),
        ({"params": [same, same]}, "given twice"),
        ({"params": [1]}, r"params of method 'mine' must be a list of Param, found \[1\]"),
        ({"params": [same, "b"]}, "must be a list of Param"),
        ({"params": "ab"}, "must be a list of Param"),
        ({"params": same}, "must be a list of Param"),
        ({"params": None}, "must be a list of Param"),
        ({"fit": even}, "its scope is 'corpus'"),
    ):
        with pytest.raises(ot.ParameterError, match=message):
            register(**options)  # type: ignore[arg-type]
    register()
    register(summary="again")  # as a cell that runs twice
    assert ot.list_methods().filter(pl.col("name") == "mine")["summary"].to_list() == ["again"]


def test_results_are_checked(corpus: ot.Corpus) -> None:
    n = corpus.events.select(pl.len()).collect().item()
    for values, message in (
        (ot.EventValues(pl.DataFrame({"value": [1.0]})), f"1 values for {n:,} events"),
        (ot.EventValues(pl.DataFrame({"v": [1.0] * n})), "no numbers in a column 'value'"),
        (ot.EventValues(pl.DataFrame({"value": [float("nan")] * n})), "nan for event 0 of trace 0"),
        (
            ot.EventValues(pl.DataFrame({"value": [1.0] * n, "reason": ["rewrad.absent"] * n})),
            "did you mean 'reward.absent'",
        ),
        ([1.0], "returned list, expected EventValues"),
    ):  # fmt: skip
        ot.credit_method("mine", summary="", quantity="advantage")(lambda *_, found=values: found)
        with pytest.raises(ot.ParameterError, match=message):
            ot.credit(corpus, method="mine")


def test_what_is_said_of_traces_is_checked(corpus: ot.Corpus) -> None:
    values = pl.DataFrame({"value": [0.0] * corpus.events.select(pl.len()).collect().item()})
    good = pl.DataFrame({"trace": [0, 1], "amount": [1.0, 2.0], "remainder": [1.0, 2.0]})
    nan = float("nan")

    def credit(values: object, traces: object) -> pl.DataFrame:
        found = ot.EventValues(values, traces)  # type: ignore[arg-type]  # that is the test
        ot.credit_method("mine", summary="", quantity="share")(lambda *_: found)
        return ot.credit(corpus, method="mine", unit="team").filter(pl.col("trace") < 2)

    with_reasons = good.with_columns(reason=pl.lit(None, pl.String))
    assert credit(values, good).equals(credit(values, with_reasons))
    assert credit(values, good)["credit"].sum() == 3.0
    for wrong_values, traces, message in (
        ([0.0], good, "values of type list, expected a DataFrame with a column 'value'"),
        (values.lazy(), good, "values of type LazyFrame, expected a DataFrame with a column 'value'"),
        (values["value"], good, "values of type Series, expected a DataFrame with a column 'value'"),
        (values, good.lazy(), "traces of type LazyFrame, expected a DataFrame"),
        (values, [0, 1], "traces of type list, expected a DataFrame"),
        (values, good.drop("remainder"), "traces without a column 'remainder'"),
        (values, good.with_columns(amount=pl.lit("1")), "column 'amount' of type String, expected numbers"),
        (values, pl.concat([good, good]), "traces with trace 0 twice"),
        (values, good.with_columns(trace=pl.lit(-1)), "traces with -1 as number of a trace"),
        (values, good.with_columns(remainder=nan), "traces with remainder nan for trace 0"),
        (values, good.with_columns(amount=-float("inf")), "traces with amount -inf for trace 0"),
    ):  # fmt: skip
        with pytest.raises(ot.ParameterError) as caught:
            credit(wrong_values, traces)
        assert str(caught.value).startswith("method 'mine' returned ") and str(caught.value).endswith(message)


def test_reasons_and_amounts() -> None:
    events = pl.DataFrame({"trace": [0, 0, 0, 1, 2, 3], "id": list("abcdef"), "t": 0.0, "type": "message",
        "agent": ["x", "x", "y", "x", "x", "x"]})  # fmt: skip
    traces = pl.DataFrame({"trace": [0, 1, 2, 3], "trace_id": list("abcd")})
    team = pl.DataFrame({"trace": [0, 1, 2], "kind": "reward", "name": "team", "value": [1.0, 2.0, 3.0]})
    corpus = ot.Corpus.from_arrow(traces=traces, events=events, measures=team)
    values = pl.DataFrame(
        {
            "value": [1.0, None, None, 0.0, None, 7.0],
            "reason": [None, "field.absent", None, None, None, None],
        }
    )
    said = pl.DataFrame(
        {
            "trace": [1, 2],
            "amount": [5.0, 3.0],
            "remainder": [4.0, 0.0],
            "reason": ["group.degenerate", "graph.cycle"],
        }
    )
    found = ot.EventValues(values, said, {"r2": 0.1234567, "n": 3})
    ot.credit_method("mine", summary="", quantity="advantage")(lambda *_: found)
    rows = ot.credit(corpus, method="mine").select("credit", pl.col("reason").cast(pl.String)).rows()
    assert rows == [
        *[(1.0, None), (None, "field.absent"), (None, "unit.none"), (0.0, "group.degenerate")],
        *[(None, "graph.cycle"), (None, "reward.absent")],
    ]
    agents = ot.credit(corpus, method="mine", unit="agent")
    assert agents.select("credit", pl.col("reason").cast(pl.String)).rows() == [
        *[(1.0, None), (None, "unit.none"), (0.0, "group.degenerate")],
        *[(None, "graph.cycle"), (None, "reward.absent")],
    ]
    params = json.loads(agents["params"][0])
    assert params == {"quality": {"n": 3, "r2": 0.123457}, "seed": 0, "version": _core.VERSION}
    assert agents.schema == CREDITS
    full = ot.EventValues(values.with_columns(pl.col("value").fill_null(0.0)), said)
    ot.credit_method("mine", summary="", quantity="share")(lambda *_: full)
    shares = ot.credit(corpus, method="mine", unit="agent")
    assert shares.select("unit_id", "credit", "residual").rows() == [
        *[("x", 1.0, 0.0), ("y", 0.0, 0.0), ("x", 0.0, 1.0), (None, 4.0, 1.0)],
        *[("x", 0.0, 3.0), ("x", None, None)],
    ]


def test_scopes_on_a_corpus_in_pieces(corpus: ot.Corpus, tmp_path: Path) -> None:
    corpus.write_jsonl(str(tmp_path / "runs.jsonl"))
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=3)
    on_disk = ot.read_corpus(tmp_path / "corpus")
    assert sum(1 for _ in on_disk.pieces()) == 3
    ot.credit_method("mine", summary="", quantity="share")(even)
    columns = ["trace_id", "unit_id", "credit"]
    pair = [
        ot.credit(one, method="mine", unit="agent").select(columns).sort(columns) for one in (corpus, on_disk)
    ]
    assert_frame_equal(*pair)
    ot.credit_method("mine", summary="", quantity="share", scope="corpus")(even)
    with pytest.raises(ot.ParameterError, match="compares all traces of a corpus at once"):
        ot.credit(on_disk, method="mine")
    assert ot.credit(corpus, method="mine").height
    fits = []

    def fit(corpus: ot.Corpus, rewards: pl.DataFrame, params: dict[str, object], seed: int) -> float:
        fits.append(sum(len(piece) for piece in corpus.slices()))
        return float(rewards["amount"].mean())  # type: ignore[arg-type]  # a number

    def centered(
        corpus: ot.Corpus, rewards: pl.DataFrame, params: dict[str, object], seed: int, mean: float
    ) -> ot.EventValues:
        found = even(corpus, rewards.with_columns(pl.col("amount") - mean), params, seed)
        return ot.EventValues(
            found.values, rewards.with_columns(remainder=mean, reason=pl.lit(None, pl.String))
        )

    ot.credit_method("mine", summary="", quantity="share", scope="corpus", fit=fit)(centered)
    credits = ot.credit(on_disk, method="mine", unit="team", sink=tmp_path / "credits").collect()
    assert fits == [len(corpus)] and credits["residual"].abs().max() < 1e-12
    again = ot.credit(on_disk, method="mine", unit="team", sink=tmp_path / "credits", resume=True)
    assert again.collect().equals(credits) and len(fits) == 1
