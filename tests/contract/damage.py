"""What is asked of damaged documents, in a module that a process of a pool can import.

Documents are examined together, since calls cost more than documents do; those of a call that fails are
halved until the ones at fault are left, and these are told in full. Most have ids of their own: records that
two documents share are kept once, and the damage to the others would go unseen.
"""

import base64
import io
import random
import warnings
from collections.abc import Iterable, Sequence

import polars as pl

import orchestrace as ot
from contract.verbs import VERBS, answer
from orchestrace.base.schema import SCHEMAS
from samples import on_disk
from samples.mutations import Document, goldens, mutated, published, renamed

KINDS = ("used", "ignored", "duplicate", "quarantined")
PLACES = ["file", "line", "offset", "length"]
APART = 48
"""Documents that a verb is asked about again where it refused more of them for the sake of one."""
STREAMS = ("source", "write_quarantined")
"""Verbs that read the recordings again, which streams do not allow."""


def read(documents: Sequence[Document], threads: int = 1) -> ot.Corpus:
    """The documents, an input each; those of a custom format need a call of their own."""
    mapping = documents[0].mapping
    options = {} if mapping is None else {"format": "mapping", "mapping": mapping}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs = [io.BytesIO(document.data) for document in documents]
        return ot.read_traces(inputs, threads=threads, **options)  # type: ignore[arg-type]


def assert_settled(documents: Sequence[Document]) -> ot.Corpus:
    """Counts add up, threads change nothing, and what is written is what was read."""
    corpus = read(documents)
    records = corpus.records
    assert records["read"] == sum(records[kind] for kind in KINDS), records
    assert records["quarantined"] == corpus.quarantine.collect().height
    whole = on_disk.rows(corpus)
    on_disk.assert_rows(read(documents, threads=2), whole)
    assert_the_same(
        ot.Corpus.from_arrow(**{name: getattr(corpus, name) for name in SCHEMAS if name != "agents"}), whole
    )
    written = io.BytesIO()
    assert corpus.write_jsonl(written) == len(corpus)
    again = ot.read_traces(io.BytesIO(written.getvalue()), format="native") if len(corpus) else corpus
    assert again.quarantine.collect().is_empty() or again is corpus, again.quarantine.collect()
    assert_the_same(again, whole)
    second = io.BytesIO()
    again.write_jsonl(second)
    assert second.getvalue() == written.getvalue(), "written again"
    return corpus


def assert_the_same(found: ot.Corpus, whole: dict[str, pl.DataFrame]) -> None:
    """Tables that are about the traces, and not about where they were read, are equal."""
    back = on_disk.rows(found)
    # Labels of runs that nobody recorded here have no document to go with.
    known = whole["traces"].select("trace_id").unique()
    for table in SCHEMAS:
        if table in ("quarantine", "record_counts"):
            continue
        left, right = (frames[table].drop(PLACES, strict=False) for frames in (whole, back))
        if table == "findings":
            left, right = (frame.filter(~rounded(whole)) for frame in (left, right))
        if table == "labels":
            left, right = (
                frame.join(known, on="trace_id", how="semi").sort(frame.columns) for frame in (left, right)
            )
        on_disk.assert_table(table, right, left)


def rounded(whole: dict[str, pl.DataFrame]) -> pl.Expr:
    """Findings about a number of a native file: it is written as the float that it became, which is exact."""
    native = whole["traces"].filter(importer="native")["trace"].implode()
    return (pl.col("code") == "number.rounded") & pl.col("trace").is_in(native)


def examine(documents: Sequence[Document]) -> None:
    asked = ask(assert_settled(documents), VERBS)
    refused = [name for name in asked if name not in STREAMS]
    if refused and len(documents) > APART:
        for first in range(0, len(documents), APART):
            ask(read(documents[first : first + APART]), refused)


def ask(corpus: ot.Corpus, names: Iterable[str]) -> list[str]:
    """Ask verbs about a corpus; names of those that refuse it."""
    refused = []
    for name in names:
        try:
            if isinstance(answer(VERBS[name], corpus), ot.OrchestraceError):
                refused.append(name)
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
    return refused


def at_fault(documents: Sequence[Document]) -> list[tuple[Document, str]]:
    """The documents that fail alone, or the smallest part found that fails together, with what is told."""
    try:
        examine(documents)
    except BaseException as error:  # a panic is one of these
        if isinstance(error, KeyboardInterrupt):
            raise
        if len(documents) == 1:
            return [(documents[0], f"{type(error).__name__}: {error}")]
        middle = len(documents) // 2
        parts = [*at_fault(documents[:middle]), *at_fault(documents[middle:])]
        return parts or [(documents[0], f"with {len(documents) - 1} others: {type(error).__name__}: {error}")]
    return []


def batch(seed: int, number: int, size: int) -> list[Document]:
    """Damaged documents, the same for the same numbers."""
    chance = random.Random(f"{seed}/{number}")
    known = goldens()
    if chance.random() < 0.04:
        sources = [one for one in known if one.format == "mapping"]
    else:
        sources = [one for one in known if one.format != "mapping"]
        real = published(chance, size // 4) if number % 4 == 0 else []
        sources = [
            chance.choice(real or sources) if n % 4 == 0 else chance.choice(sources) for n in range(size)
        ]
    some = [chance.choice(sources) for _ in range(size)]
    some = [renamed(one, str(n)) if chance.random() < 0.8 else one for n, one in enumerate(some)]
    return [mutated(chance, one) for one in some]


def failures(seed: int, number: int, size: int) -> list[str]:
    return [
        f"seed {seed}, batch {number}: {one.format} {one.name}: {what[:2000]}\n"
        f"    {base64.b64encode(one.data).decode()[:20000]}"
        for one, what in at_fault(batch(seed, number, size))
    ]
