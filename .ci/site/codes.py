"""A page for every code: what it means, an example, what to do."""

from orchestrace import _core
from orchestrace.base.remedies import REMEDIES

FOLDER = "codes"
WHERE = {
    "reject": "a row of `quarantine`: the record is left out, its neighbors are kept",
    "finding": "a row of `findings`: the trace is kept",
    "reason": "the `reason` of a null result",
    "ignored": "a `kind` in `record_counts`: the entry of an archive is not read",
}


def place(code: str) -> str:
    return f"{FOLDER}/{code}.md"


def targets() -> dict[str, str]:
    return {code: place(code) for _, code, _, _ in _core.codes()}


def pages() -> dict[str, str]:
    known = _core.codes()
    out: dict[str, list[str]] = {}
    index = [
        "# Codes",
        "",
        "Why a record was rejected, what is odd about a trace, why a result is null, why an entry of an"
        " archive is not read.",
        "",
    ]
    index += [
        "`orchestrace codes CODE` says the same in a terminal. [Errors and codes](../reference/codes.md) has",
        "",
    ]
    index[-2] += " the levels."
    titles = {"reject": "Rejects", "finding": "Findings", "reason": "Reasons", "ignored": "Ignored entries"}
    for level, title in titles.items():
        index += [
            f"## {title}",
            "",
            f"Each is {WHERE[level]}.",
            "",
            "| code | severity | meaning |",
            "|---|---|---|",
        ]
        for _, code, severity, meaning in (one for one in known if one[0] == level):
            index.append(f"| [`{code}`]({code}.md) | {severity} | {meaning} |")
            remedy = REMEDIES[level, code]
            kind = f"a {severity}, " if severity else ""
            page = out.setdefault(place(code), [f"# {code}", ""])
            page += [
                f"## As {'an ignored record' if level == 'ignored' else f'a {level}'}",
                "",
                meaning,
                "",
                f"It is {kind}{WHERE[level]}.",
                "",
            ]
            page += [f"**Example.** {remedy.example}", "", f"**What to do.** {remedy.fix}", ""]
        index.append("")
    for page in out.values():
        page += ["[All codes](index.md)"]
    return {f"{FOLDER}/index.md": "\n".join(index)} | {
        name: "\n".join(lines) + "\n" for name, lines in out.items()
    }
