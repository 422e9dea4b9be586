"""Words of the command line as values of the library."""

import json
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any, TypeVar

from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..credit.verb import Parameter
from ..interventions import aggregate_by, concurrency, do, drop, speed_up, truncate
from ..interventions.content import SELECTORS

W = TypeVar("W", bound=str)


def word(text: str, option: str, words: Sequence[W]) -> W:
    """The one of `words` that an option says, refused before a recording is read."""
    for candidate in words:
        if candidate == text:
            return candidate
    raise ParameterError(unknown_name(f"word for {option}", text, list(words)))


def weights(items: list[str]) -> str | dict[str, float]:
    """CHANNEL, or CHANNEL=WEIGHT of several."""
    if len(items) == 1 and "=" not in items[0]:
        return items[0]
    weights = {}
    for item in items:
        channel, sign, weight = item.rpartition("=")
        if "=" in channel and "," in channel:
            raise ParameterError(
                f"--reward '{item}', expected one CHANNEL=WEIGHT: repeat --reward for others"
            )
        try:
            weights[channel if sign else item] = float(weight) if sign else 1.0
        except ValueError:
            raise ParameterError(
                f"reward '{item}': '{weight}' is not a number; expected CHANNEL=WEIGHT"
            ) from None
    return weights


def null_values(items: Sequence[str]) -> dict[str, list[float]]:
    """NAME=NUMBER of several as the numbers of each name."""
    values: dict[str, list[float]] = {}
    for item in items:
        name, _, number = item.rpartition("=")
        try:
            values.setdefault(name, []).append(float(number))
        except ValueError:
            name = ""
        if not name:
            raise ParameterError(f"--null-value '{item}', expected NAME=NUMBER, as in 'score=-1'")
    return values


def credit_options(unit: str, reward: list[str] | None, seed: int, param: list[str] | None) -> dict[str, Any]:
    """What `credit` is asked for, the parameters of its method included."""
    options: dict[str, Any] = {"unit": unit, "reward": weights(reward or ["team"]), "seed": seed}
    params = dict(map(_parameter, param or []))
    taken = sorted(
        params.keys() & {*options, "corpus", "method", "over", "threads", "progress", "sink", "resume"}
    )
    if taken:
        raise ParameterError(f"'{taken[0]}' is an option of its own, not a parameter of the method")
    return options | params


def limits(text: str | None) -> tuple[float, float] | None:
    """LEAST,GREATEST."""
    if text is None:
        return None
    try:
        least, most = map(float, text.split(","))
    except ValueError:
        raise ParameterError(f"--bounds '{text}', expected two numbers, something like 0,1") from None
    return least, most


def rule_params(items: list[str] | None) -> dict[str, Any]:
    """Parameters of a rule of rewards: NAME=VALUE."""
    return dict(map(_parameter, items or []))


def rule_channels(items: list[str] | None) -> dict[str, str]:
    """Channels of rules and the recorded rewards that they are: NAME=REWARD."""
    pairs = (item.partition("=") for item in items or [])
    channels = {}
    for name, sign, reward in pairs:
        if not (name and sign and reward):
            raise ParameterError(f"--channel '{name}{sign}{reward}', expected something like outcome=team")
        channels[name] = reward
    return channels


def _named(item: str, option: str) -> tuple[str, str]:
    by, sign, name = item.partition("=")
    if not (sign and by and name):
        raise ParameterError(f"{option} '{item}', expected something like agent=NAME")
    return by, name


def _dropped(item: str, mode: str, lost: str) -> Any:
    """SELECTION=NAME, an edge as ID->ID."""
    by, name = _named(item, "--drop")
    options: dict[str, Any] = {"mode": mode, "lost": lost}
    if by == "edge":
        options[by] = tuple(name.split("->"))
    elif by in SELECTORS:
        options[by] = name
    else:
        raise ParameterError(unknown_name("selection in --drop", by, list(SELECTORS)))
    return drop(**options)


def _valued(item: str) -> Any:
    """SELECTION=NAME:VALUE."""
    selections = [selector for selector in SELECTORS if selector not in ("edge", "message", "spawn")]
    options, to = _numbered(item, "--set", "0.5", selections)
    return do(to=to, **options)


def _faster(item: str) -> Any:
    """SELECTION=NAME:FACTOR."""
    options, factor = _numbered(item, "--speed-up", "2", ["tool", "agent", "role", "type", "event"])
    return speed_up(int(factor) if factor.is_integer() else factor, **options)


def _numbered(item: str, option: str, example: str, selections: list[str]) -> tuple[dict[str, Any], float]:
    """SELECTION=NAME:NUMBER; names may hold colons."""
    selection, sign, text = item.rpartition(":")
    if not sign:
        raise ParameterError(f"{option} '{item}', expected something like agent=NAME:{example}")
    by, name = _named(selection, option)
    if by not in selections:
        raise ParameterError(unknown_name(f"selection in {option}", by, selections))
    return {by: name}, _float(text, f"{option} '{item}'")


def _truncated(item: str) -> Any:
    """A time, or event=ID."""
    if item.startswith("event="):
        return truncate(event=item.removeprefix("event="))
    return truncate(at=_float(item, "--truncate"))


def _slots(text: str, pool: str) -> Any:
    """Numbers with commas between, and none."""
    numbers: list[int | None] = []
    for word in text.split(","):
        if word != "none" and not word.isdecimal():
            raise ParameterError(f"--slots '{text}', expected whole numbers and none, like 1,2,4,none")
        numbers.append(None if word == "none" else int(word))
    return concurrency(numbers, pool=pool)  # type: ignore[arg-type]  # judged there


def scenarios(
    *,
    dropped: list[str] | None,
    each: list[str] | None,
    mode: str,
    lost: str,
    values: list[str] | None,
    truncated: list[str] | None,
    aggregate: list[str] | None,
    faster: list[str] | None,
    slots: str | None,
    pool: str,
    at_once: bool,
) -> list[Any]:
    """What is changed, one scenario for each option, or one of them all."""
    changes: list[Any] = [_dropped(item, mode, lost) for item in dropped or []]
    changes += [drop(each=level, mode=mode, lost=lost) for level in each or []]  # type: ignore[arg-type]  # judged there
    changes += map(_valued, values or [])
    changes += map(_truncated, truncated or [])
    changes += [aggregate_by(rule) for rule in aggregate or []]  # type: ignore[arg-type]  # judged there
    changes += map(_faster, faster or [])
    changes += [_slots(slots, pool)] if slots is not None else []
    if not changes:
        raise ParameterError(
            "nothing to replay: give --drop, --each, --set, --truncate, --aggregate, --speed-up or --slots"
        )
    return [reduce(and_, changes)] if at_once else changes


def _float(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{place}: '{text}' is not a number") from None


def _parameter(item: str) -> tuple[str, Parameter]:
    name, sign, text = item.partition("=")
    if not sign or not name:
        raise ParameterError(f"parameter '{item}', expected NAME=VALUE")
    try:
        value: Parameter = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return name, text if isinstance(value, dict) else value


def run_of(item: str) -> tuple[str, dict[str, Parameter]]:
    """NAME, or NAME:PARAM=VALUE,... of a method."""
    name, _, params = item.partition(":")
    return name, dict(map(_parameter, params.split(",") if params else []))
