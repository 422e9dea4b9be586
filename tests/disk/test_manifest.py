"""Whatever a manifest says, it is a manifest or one clear error; saving and loading is the identity."""

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, strategies as st

import orchestrace as ot
from orchestrace.corpus.on_disk import MANIFEST
from orchestrace.disk import manifest
from orchestrace.disk.manifest import Input, Manifest, Part
from samples import on_disk
from samples.examples import examples

COUNT = st.integers(0, 2**63 - 1)
SHARE = st.integers(0, 2**61 - 1)
# Names of files as Linux has them: any bytes, those that are not UTF-8 as lone surrogates.
NAME = st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
PLAIN = st.text("0123456789abc-_ é", min_size=1, max_size=12)
NUMBER = st.integers(0, 2**32 - 1)
SHARD = st.from_regex(r"[0-9]{6,8}(-[0-9]{3})?", fullmatch=True)


def parts(*tables: str) -> st.SearchStrategy[list[Part]]:
    """Parts with rows of any of the tables, of a single one always."""
    rows = st.dictionaries(st.sampled_from(tables), COUNT, min_size=len(tables) == 1, max_size=3)
    return st.lists(
        st.builds(Part, name=SHARD, shard=NUMBER, rows=rows, first=NUMBER, last=NUMBER), max_size=2
    )


def settled(one: Input) -> Input:
    """The same with as many records as it says of what became of them."""
    one.records = one.used + one.ignored + one.quarantined + one.duplicates
    return one


INPUTS = st.builds(
    Input,
    name=st.text(st.characters(codec="utf-8"), max_size=20),
    path=NAME,
    size=COUNT,
    mtime_ns=COUNT,
    blake3=st.none() | PLAIN,
    since=NUMBER,
    offset=COUNT,
    lines=COUNT,
    blocks=COUNT,
    done=st.booleans(),
    used=SHARE,
    ignored=SHARE,
    quarantined=SHARE,
    duplicates=SHARE,
).map(settled)


def in_batches(made: Manifest) -> Manifest:
    """The same with every other part of a partition in the file of a batch."""
    parts = [part for of in made.parts.values() for part in of][::2]
    for part in parts:
        part.batch, part.pieces = "000003-00", {table: (n, 1) for n, table in enumerate(part.rows)}
    if parts:
        checksum = manifest.Fingerprint(7, "0" * 64)
        made.batches = [Part("000003-00", 3, {"batches": 5}, 0, 0, {"batches": checksum})]
    return made


MANIFESTS = st.builds(
    Manifest,
    partitions=st.integers(1, 999),
    key=st.lists(PLAIN, min_size=1, max_size=3),
    memory=COUNT,
    fields=st.dictionaries(PLAIN, st.sampled_from(["text", "i64", "f64", "bool"]), max_size=3),
    complete=st.booleans(),
    next_shard=NUMBER,
    next_trace=NUMBER,
    inputs=st.lists(INPUTS, max_size=3),
    parts=st.dictionaries(
        st.from_regex(r"[0-9]{3}", fullmatch=True), parts(*manifest.PARTITIONED), max_size=3
    ),
    index=parts("index"),
    quarantine=parts("quarantine"),
).flatmap(lambda made: st.sampled_from([made, in_batches(copy.deepcopy(made))]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["..", "../../x", "/etc/passwd", "a/../../b", "1.0.0", "2.0.0", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The manifest of a corpus that was made in several steps and has something of everything."""
    folder = tmp_path_factory.mktemp("manifest")
    on_disk.write_recordings(folder / "in", events=1500)
    with pytest.MonkeyPatch.context() as patch:
        on_disk.make_small(patch.setattr)
        ot.ingest(folder / "in" / "c.json", folder / "out", partitions=2, fields=on_disk.FIELDS)
        ot.ingest(folder / "in", folder / "out")
    return (folder / "out" / MANIFEST).read_text(encoding="utf-8")


def judged(text: str | bytes, folder: Path) -> Manifest | None:
    """The manifest; null where it was refused, in the one way in which it may be."""
    (folder / MANIFEST).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
    try:
        made = manifest.load(folder)
    except ot.SchemaError as error:
        assert "\n" not in str(error) and MANIFEST in str(error)
        with pytest.raises(ot.SchemaError):
            ot.read_corpus(folder)
        return None
    assert isinstance(made, Manifest)
    for name in made.files():
        assert (folder / name).resolve().is_relative_to(folder.resolve()), name
    # What is refused is refused now: columns and counts need no file, and have no other error.
    corpus = ot.read_corpus(folder)
    for table in on_disk.TABLES:
        assert corpus._schema(table)
    assert corpus.records["read"] >= 0
    return made


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every value of a JSON document is."""
    found = [at]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += places(one, (*at, key))
    return found


def holder(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@examples(200)
@given(made=MANIFESTS)
def test_what_is_saved_is_loaded(folder: Path, made: Manifest) -> None:
    made.save(folder)
    assert manifest.load(folder) == made
    again = manifest.parse(json.dumps(asdict(made)), "here")
    assert again == made


@examples(400)
@given(data=st.data())
def test_damaged_values(folder: Path, genuine: str, data: st.DataObject) -> None:
    value = json.loads(genuine)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(value)[1:] or [("x",)]))
        inside = holder(value, place)
        what = data.draw(st.sampled_from(["replace", "remove", "double"]))
        if what == "replace":
            inside[place[-1]] = data.draw(JSON)
        elif what == "remove" and place[-1] in (inside if isinstance(inside, dict) else range(len(inside))):
            del inside[place[-1]]
        elif isinstance(inside, list):
            inside.append(copy.deepcopy(inside[place[-1]]))
        else:
            inside[data.draw(st.text(max_size=6))] = data.draw(JSON)
    judged(json.dumps(value), folder)


@pytest.mark.parametrize("key", ["a\nb", "\r", "\u2028", "\ud800"])
def test_a_key_of_any_characters_is_told_in_one_line(folder: Path, genuine: str, key: str) -> None:
    fields, rows = json.loads(genuine), json.loads(genuine)
    fields["fields"][key] = "money"
    rows["parts"]["000"][0]["rows"][key] = None
    for value, place in ((fields, "fields."), (rows, "parts.000[0].rows.")):
        assert judged(json.dumps(value), folder) is None
        with pytest.raises(ot.SchemaError) as caught:
            manifest.load(folder)
        assert str(caught.value).splitlines() == [str(caught.value)] and place + repr(key) in str(
            caught.value
        )


@examples(150)
@given(share=st.floats(0, 1), noise=st.binary(max_size=6))
def test_damaged_text(folder: Path, genuine: str, share: float, noise: bytes) -> None:
    raw = genuine.encode()
    at = int(share * (len(raw) - 2))
    assert judged(raw[:at], folder) is None, "what is cut short is no manifest"
    judged(raw[:at] + noise + raw[at + len(noise) :], folder)


@examples(150, suppress_health_check=[HealthCheck.too_slow])
@given(raw=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_arbitrary_bytes(folder: Path, raw: bytes) -> None:
    assert judged(raw, folder) is None


@pytest.mark.parametrize("left", [0, 1, 100, -1, -40])
def test_a_manifest_that_lost_its_end_says_what_to_do(folder: Path, genuine: str, left: int) -> None:
    (folder / MANIFEST).write_text(genuine.rstrip()[:left])
    with pytest.raises(ot.SchemaError, match="restore it, or ingest the recordings into another folder"):
        manifest.load(folder)


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", "0", "NaN", "[" * 100_000, '{"a":' * 5_000, "1" * 10_000, "\ufeff{}", "\0"],
    ids=lambda text: text[:6],
)
def test_what_is_no_manifest(folder: Path, text: str) -> None:
    assert judged(text, folder) is None


@pytest.mark.parametrize(
    ("version", "readable"),
    [("1.0.0", True), ("1.999.3", True), ("2.0.0", False), ("0.9", False), ("", False), ("x", False)],
)
def test_versions(folder: Path, genuine: str, version: str, readable: bool) -> None:
    value = json.loads(genuine)
    assert value["schema_version"].startswith("1.")
    # What a later minor version adds is let be.
    value |= {"schema_version": version, "added": {"later": [1]}}
    value["inputs"][0]["added"] = None
    made = judged(json.dumps(value), folder)
    assert (made is not None) == readable
    if made is not None:
        assert made.inputs == manifest.parse(genuine, "here").inputs


def test_counts_that_do_not_add_up(folder: Path, genuine: str) -> None:
    """The word of before the first release stands for a count that is not there."""
    value = json.loads(genuine)
    assert value["inputs"][0]["used"] > 0
    value["inputs"][0]["accepted"] = value["inputs"][0].pop("used")
    assert judged(json.dumps(value), folder) is None
    with pytest.raises(ot.SchemaError, match=r"inputs\[0\] has \d+ records .*: ingest the recordings again$"):
        ot.read_corpus(folder)


@pytest.mark.parametrize("name", ["..", "../../../x", "a/../../../../b", "..\\x/..", "x/../../y"])
def test_paths_that_lead_outside(folder: Path, genuine: str, name: str) -> None:
    for change in (
        lambda value: value["parts"].update({name: value["parts"].popitem()[1]}),
        lambda value: next(iter(value["parts"].values()))[0].update(name=name),
        lambda value: next(iter(value["parts"].values()))[0]["rows"].update({name: 1}),
        lambda value: value["index"][0].update(name=name),
        lambda value: value["quarantine"][0].update(name=name),
    ):
        value = json.loads(genuine)
        change(value)
        assert judged(json.dumps(value), folder) is None


def test_a_folder_in_place_of_a_manifest(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).mkdir()
    with pytest.raises(ot.InputError, match="Is a directory"):
        ot.read_corpus(tmp_path)
    with pytest.raises(ot.InputError):
        manifest.load(tmp_path)
    assert manifest.load(tmp_path / "absent") is None
