"""A page for every public name of the package, from its docstring and its signature."""

import functools
import inspect
import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import orchestrace as ot

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ENTRIES = {"Parameters", "Returns", "Raises", "Yields", "Attributes", "Warns", "Other Parameters"}
FOLDER = "python"


@dataclass(frozen=True)
class Scope:
    """Where a docstring stands: its namespace, and the parameters of its function."""

    space: str
    parameters: Collection[str]

    @classmethod
    def of(cls, name: str, one: Any) -> "Scope":
        known = inspect.signature(one).parameters if inspect.isfunction(one) else ()
        return cls(name if inspect.ismodule(one) else name.partition(".")[0], known)


def spaces() -> dict[str, ModuleType]:
    return {name: one for name in ot.__all__ if inspect.ismodule(one := getattr(ot, name))}


@functools.cache
def names() -> dict[str, Any]:
    """Every public name as one writes it behind ``ot.``, those of namespaces too."""
    own = spaces()
    top = {name: getattr(ot, name) for name in ot.__all__ if name not in own and not name.startswith("__")}
    inside = {
        f"{space}.{name}": getattr(module, name) for space, module in own.items() for name in module.__all__
    }
    return top | inside


def place(name: str) -> str:
    return f"{FOLDER}/{name}/index.md" if name in spaces() else f"{FOLDER}/{name.replace('.', '/')}.md"


@functools.cache
def targets() -> dict[str, str]:
    """Which page, and which heading of it, a span of code is about."""
    out: dict[str, str] = {}
    for name, one in names().items():
        spelled = [name, *((f"{name}()",) if callable(one) else ())]
        out |= {f"ot.{word}": place(name) for word in spelled}
        if inspect.isclass(one):
            for member in members(one):
                for word in (member, f"{member}()"):
                    out[f"ot.{name}.{word}"] = out[f"{name}.{word}"] = f"{place(name)}#{slug(name, member)}"
    return out | {f"ot.{space}": place(space) for space in spaces()}


def slug(name: str, member: str) -> str:
    return re.sub(r"[^\w-]", "", f"ot.{name}.{member}".lower())


def members(one: type) -> dict[str, Any]:
    """What a class offers itself: methods, properties and fields with a docstring of their own."""
    return {
        name: value
        for name, value in vars(one).items()
        if not name.startswith("_") and inspect.getdoc(inspect.unwrap(getattr(value, "__func__", value)))
        if callable(getattr(value, "__func__", value)) or isinstance(value, property)
    }


def annotation(one: Any) -> str:
    text = one if isinstance(one, str) else inspect.formatannotation(one)
    text = re.sub(r"\b(?:[A-Za-z_]\w*\.)+([A-Za-z_]\w*)", r"\1", text)
    text = re.sub(r"\bForwardRef\('([^']+)'[^)]*\)", r"\1", text)
    while found := re.search(r"\b(Union|Optional)\[", text):
        depth, parts, begin = 1, [], found.end()
        for end in range(begin, len(text)):
            depth += (text[end] == "[") - (text[end] == "]")
            if depth == 0 or (depth == 1 and text[end] == ","):
                parts.append(text[begin:end].strip())
                begin = end + 1
            if depth == 0:
                break
        parts += ["None"] * (found[1] == "Optional")
        text = text[: found.start()] + " | ".join(parts).replace("NoneType", "None") + text[end + 1 :]
    return text


def signature(called: str, one: Any) -> str:
    """A call as a stub writes it, a parameter a line where it is long."""
    try:
        known = inspect.signature(one)
    except (TypeError, ValueError):  # an exception of the compiled module
        return called
    parts, keyword_only = [], False
    for parameter in known.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        keyword_only |= parameter.kind is parameter.VAR_POSITIONAL
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        kind = "" if parameter.annotation is parameter.empty else f": {annotation(parameter.annotation)}"
        value = "" if parameter.default is parameter.empty else f" = {plain_default(parameter.default)}"
        parts.append(f"{star}{parameter.name}{kind}{value if kind else value.replace(' ', '')}")
    gives = "" if known.return_annotation is known.empty else f" -> {annotation(known.return_annotation)}"
    line = f"{called}({', '.join(parts)}){gives}"
    if len(line) <= 88:
        return line
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{called}(\n{inner}){gives}"


def plain_default(value: Any) -> str:
    text = value.__name__ if inspect.isfunction(value) or inspect.isclass(value) else repr(value)
    return re.sub(r"<(?:[\w.]*\.)?(\w+)[^>]*>", r"\1", text)


def sections(doc: str) -> Iterator[tuple[str, str]]:
    """Titles and bodies of a docstring in the style of NumPy; the first has no title."""
    found = list(SECTION.finditer(doc))
    yield "", doc[: found[0].start()] if found else doc
    for number, one in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(doc)
        yield one[1], doc[one.end() : end].strip("\n")


def entries(body: str) -> Iterator[tuple[str, str]]:
    """Heads, which are not indented, with what stands indented below them."""
    for block in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, below = block.partition("\n")
        yield head.strip(), textwrap.dedent(below).strip("\n")


def literal(text: str, scope: Scope) -> str:
    """Prose of a docstring as Markdown: doubled backticks are code, single ones name what the package
    offers, or a parameter."""

    def named(found: re.Match[str]) -> str:
        if found[1].removesuffix("()") in scope.parameters:
            return found[0]
        spelled = (f"ot.{found[1]}", f"ot.{scope.space}.{found[1]}")
        return next((f"`{one}`" for one in spelled if one in targets()), found[0])

    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"(?<!`)`([\w.]+(?:\(\))?)`(?!`)", named, text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


def markdown(doc: str, level: int, scope: Scope) -> Iterator[str]:
    """A docstring as Markdown, its sections below headings of the level."""
    mark = "#" * level
    for name, body in sections(doc):
        if name:
            yield from (f"{mark} {name}" if level < 4 else f"**{name}**", "")
        if name == "Examples":
            yield from examples(body, scope)
        elif name in ENTRIES:
            for head, below in entries(body):
                names = ", ".join(f"`{one.strip()}`" for one in head.split(","))
                lead = literal(head, scope) if name in ("Returns", "Yields") else names
                text = textwrap.indent(literal(below, scope), "  ").strip()
                yield f"- {lead}: {text}" if text else f"- {lead}"
            yield ""
        else:
            yield from (literal(body, scope).strip(), "")


def examples(body: str, scope: Scope) -> Iterator[str]:
    """Prose as prose, sessions as code."""
    for block in re.split(r"\n\s*\n", body.strip("\n")):
        session = block.lstrip().startswith(">>>")
        yield from ("```python", block, "```", "") if session else (literal(block, scope), "")


def about(name: str, one: Any, *, level: int = 2) -> Iterator[str]:
    doc = inspect.getdoc(one) or ""
    made = not inspect.isclass(one) or "\nParameters\n---" in doc
    yield from ("```python", signature(f"ot.{name}", one) if made else f"class ot.{name}", "```", "")
    yield from markdown(doc, level, Scope.of(name, one))


def page(name: str, one: Any) -> str:
    if inspect.ismodule(one):  # inside a namespace
        lines = [f"# ot.{name}", "", *markdown(inspect.getdoc(one) or "", 2, Scope.of(name, one))]
        for member, value in vars(one).items():
            if inspect.isfunction(value) and not member.startswith("_") and value.__module__ == one.__name__:
                lines += [f"## ot.{name}.{member}", "", *about(f"{name}.{member}", value, level=4)]
        return "\n".join(lines).rstrip() + "\n"
    lines = [f"# ot.{name}", "", *about(name, one)]
    if inspect.isclass(one):
        for member, value in members(one).items():
            lines += [f"## ot.{name}.{member}", ""]
            if isinstance(value, property):
                gives = (
                    inspect.signature(value.fget).return_annotation if value.fget else inspect.Signature.empty
                )
                kind = "" if gives is inspect.Signature.empty else f": `{annotation(gives)}`"
                lines += [
                    f"Property{kind}",
                    "",
                    *markdown(inspect.getdoc(value) or "", 4, Scope.of(name, one)),
                ]
            else:
                lines += about(f"{name}.{member}", getattr(value, "__func__", value), level=4)
    return "\n".join(lines).rstrip() + "\n"


def first_line(name: str, one: Any) -> str:
    line = (inspect.getdoc(one) or "").partition("\n\n")[0].replace("\n", " ")
    return literal(line, Scope.of(name, one))


def listed(offered: dict[str, Any]) -> Iterator[str]:
    yield from ("| name | what |", "|---|---|")
    for name, one in offered.items():
        yield f"| `ot.{name}` | {first_line(name, one)} |"
    yield ""


def pages() -> dict[str, str]:
    known = names()
    own = spaces()
    top = {name: one for name, one in known.items() if "." not in name}
    index = [
        "# The Python API",
        "",
        "Every public name of `import orchestrace as ot`, made from its docstring.",
        "",
    ]
    index += [*listed(top), "## Namespaces", "", *listed(dict(own))]
    out = {f"{FOLDER}/index.md": "\n".join(index)}
    for space, module in own.items():
        inside = {name: one for name, one in known.items() if name.startswith(f"{space}.")}
        out[place(space)] = "\n".join([f"# ot.{space}", "", first_line(space, module), "", *listed(inside)])
    return out | {place(name): page(name, one) for name, one in known.items()}
