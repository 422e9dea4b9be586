"""A page for every command of `orchestrace`, from the tree of commands that runs it."""

import re
from collections.abc import Iterator

import typer

from orchestrace.cli import app

FOLDER = "command-line"
TYPES = {"str": "text", "int": "integer", "float": "number", "Path": "path"}


def root() -> typer.core.TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, typer.core.TyperGroup)
    return found


def cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|").replace("<", "&lt;")


def taken(metavar: str) -> str:
    """What an option takes, without the marks of a usage line."""
    inner = re.sub(r"^[\[<{]+|[\]>}]+$", "", metavar.removesuffix("..."))
    word = re.sub(r"^list\[(.*?)\]?$", r"\1", inner).removesuffix(" range")
    return cell(TYPES.get(word, word)) + "..." * metavar.endswith("...")


def parameters(context: typer.Context) -> Iterator[str]:
    """Tables of arguments and options, with what they take and their defaults."""
    for kind, head in (("argument", "Arguments"), ("option", "Options")):
        rows = []
        for one in context.command.params:
            if one.param_type_name != kind or getattr(one, "hidden", False):
                continue
            flag = getattr(one, "is_flag", False)
            takes = "" if flag else taken(one.metavar or one.display_type(context))
            spelled = " ".join(f"`{word}`" for word in [*one.opts, *one.secondary_opts])
            if kind == "argument":
                spelled, takes = f"`{takes}`", ""
            value = one.get_default(context)
            named = (
                "required"
                if one.required
                else ""
                if value in (None, (), [], False)
                else f"`{cell(str(value))}`"
            )
            takes = f"`{takes}`" if takes else ""
            rows.append([spelled, takes, named, cell(getattr(one, "help", None) or "")])
        if rows:
            columns = ["name", "takes", "default", "what it does"]
            kept = [number for number in range(4) if any(row[number] for row in rows)]
            yield from (f"**{head}**", "", "| " + " | ".join(columns[number] for number in kept) + " |")
            yield from (
                "|" + "---|" * len(kept),
                *("| " + " | ".join(row[n] for n in kept) + " |" for row in rows),
                "",
            )


def about(command: typer.core.TyperCommand | typer.core.TyperGroup, path: str, level: int) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    yield from (f"{'#' * level} orchestrace {path}", "", (command.help or "").strip(), "")
    usage = re.sub(r"\{([^}]*?)(?:\.\.\.)?\}", r"\1", " ".join(command.collect_usage_pieces(context)))
    yield from ("```sh", f"orchestrace {path} {usage}".rstrip(), "```", "")
    yield from parameters(context)
    examples = re.findall(r"^\$ (.*)$", command.epilog or "", re.MULTILINE)
    yield from ("**Examples**", "", "```sh", *examples, "```", "") if examples else ()
    for name, one in sorted(getattr(command, "commands", {}).items()):
        yield from about(one, f"{path} {name}", level + 1)


def pages() -> dict[str, str]:
    out = {}
    index = [
        "# Commands",
        "",
        "Every command of `orchestrace` with its options, from the program itself.",
        "",
    ]
    index += ["[The command line](../command.md) has examples, tables, files and exit codes.", ""]
    index += ["| command | what it does |", "|---|---|"]
    for name, command in sorted(root().commands.items()):
        if command.hidden:
            continue
        text = "\n".join(about(command, name, 1)).rstrip() + "\n"
        out[f"{FOLDER}/{name}.md"] = text
        index.append(
            f"| [`orchestrace {name}`]({name}.md) | {cell((command.help or '').partition(chr(10))[0])} |"
        )
    return {f"{FOLDER}/index.md": "\n".join(index) + "\n", **out}


def targets() -> dict[str, str]:
    return {f"orchestrace {name}": f"{FOLDER}/{name}.md" for name in root().commands}
