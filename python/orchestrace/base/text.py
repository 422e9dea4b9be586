"""Text without control characters for terminals and documents, and counts with their nouns."""

from numbers import Number


def plain(value: object) -> str:
    """A value as text in which control and other unprintable characters are spelt as escapes."""
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def briefly(value: object) -> str:
    """A plain value as it is written; of others the type, as a frame or an array has many lines."""
    if isinstance(value, Number) and hasattr(value, "item"):
        value = value.item()  # as Python writes it
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, bool | int | float | bytes | str | list | tuple):
        try:
            text = repr(value)
        except ValueError:  # Python does not write a number of thousands of digits, which a list may have
            return f"a value of type {type(value).__name__}"
        if len(text) <= 80 and text.isprintable():
            return text
        if isinstance(value, str):
            return f"{value[:40]!r}... ({len(value):,} characters)"
    return f"a value of type {type(value).__name__}"


def in_json(value: object) -> object:
    """What JSON has of a value that it cannot write: a number of NumPy as Python's, all else as text."""
    return value.item() if isinstance(value, Number) and hasattr(value, "item") else str(value)


def plain_json(text: str) -> str:
    """JSON on one line with the characters escaped that JSON allows as they are and a terminal may act on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _unit_escapes(c) for c in text)


def _unit_escapes(c: str) -> str:
    units = c.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
