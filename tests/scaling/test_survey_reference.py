"""Statistics of any paper pool against Python's own counters."""

import csv
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.scaling.paper_pool import COUNTED, COUNTED_EXCLUDED, CROSSED
from samples.examples import examples

# any text that is a tag: quotes, commas, line breaks and what is no letter
TAG = st.one_of(
    st.sampled_from(["NA", "shared", "agent", "yes", "é", "Z"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1, max_size=4),
).filter(str.strip)
ROWS = st.lists(st.tuples(*[TAG] * len(COUNTED)), max_size=12)
EXCLUDED = st.lists(st.tuples(*[TAG] * len(COUNTED_EXCLUDED)), max_size=5)


def write(path: Path, key: str, fields: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[key, *fields], *([f"k{n}", *row] for n, row in enumerate(rows))])


@examples(60)
@given(ROWS, EXCLUDED)
def test_statistics_are_those_of_counters(
    rows: list[tuple[str, ...]], excluded: list[tuple[str, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "papers.csv", "key", COUNTED, rows)
        write(Path(folder) / "excluded.csv", "record_id", COUNTED_EXCLUDED, excluded)
        tables = ot.scaling.survey(folder)
    assert tables["headline"]["records"].to_list() == [len(rows), len(excluded), len(rows) + len(excluded)]
    for log, fields, records in (("retained", COUNTED, rows), ("excluded", COUNTED_EXCLUDED, excluded)):
        for at, field in enumerate(fields):
            counted = Counter(record[at] for record in records)
            expected = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0].encode()))
            assert tables["counts"].filter(log=log, field=field).select("value", "records").rows() == expected
    for left, right in CROSSED:
        pairs = Counter((row[COUNTED.index(left)], row[COUNTED.index(right)]) for row in rows)
        table = tables[f"{left}_by_{right}"]
        found = {(row[left], name): row[name] for row in table.to_dicts() for name in table.columns[1:]}
        assert Counter(found) == pairs
        assert table[left].to_list() == sorted({pair[0] for pair in pairs}, key=str.encode)
        assert table.columns[1:] == sorted({pair[1] for pair in pairs}, key=str.encode)
    assert tables["reward_families"]["papers"].sum() == len(rows) == tables["credit_units"]["papers"].sum()
