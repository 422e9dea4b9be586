"""The game of a planted run: its exact outcome for any part of its members."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from ..base.errors import ParameterError

if TYPE_CHECKING:
    from .planting import Truth

_SUBTASKS: Final[Mapping[str, int]] = {"linear": 1, "noisy_or": 1, "majority": 3, "mixed": 5}
_ERROR_COSTS: Final = 2.0
_ERROR_LEAVES: Final = 0.1
_BLOCK: Final = 1 << 22  # factors that are held at once


class PlantedGame:
    """The outcome that one planted run would have had if only some of its players had acted.

    Call it with masks over the players; it is the model that made the corpus, without the noise on the
    reward, so every method that takes a function of coalitions can be held against exact values.

    Attributes
    ----------
    trace_id
        Whose run it was.
    players
        What a column of the masks stands for: names of agents, or numbers of events.

    Examples
    --------
    >>> import numpy as np
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=8, seed=1, outcome="majority")
    >>> game = truth.game("run-00000003")
    >>> everybody = np.ones((1, len(game.players)), bool)
    >>> bool(abs(game(everybody)[0] - truth.outcomes["outcome"][3]) < 1e-12)
    True
    """

    def __init__(
        self,
        outcome: str,
        trace_id: str,
        players: Sequence[str | int],
        effects: pl.DataFrame,
        pairs: pl.DataFrame,
        decisive: str | int | None,
    ) -> None:
        self.trace_id = trace_id
        self.players = list(players)
        place = {player: n for n, player in enumerate(self.players)}
        self._outcome = outcome
        n = len(self.players)
        # Per subtask: that no failure spoils it, and that besides no success comes about.
        self._unspoilt = np.ones((_SUBTASKS[outcome], n))
        self._missed = np.ones((_SUBTASKS[outcome], n))
        self._sums = np.zeros(n)
        for player, subtask, effect in effects.select("player", "subtask", "effect").iter_rows():
            at = place[player]
            self._sums[at] += effect
            self._missed[subtask, at] *= 1.0 + effect if effect < 0.0 else 1.0 - effect
            if effect < 0.0:
                self._unspoilt[subtask, at] *= 1.0 + effect
        self._ends = np.array(
            [(place[a], place[b]) for a, b in pairs.select("one", "other").iter_rows()], np.int64
        ).reshape(-1, 2)
        self._weights = pairs["weight"].to_numpy()
        self._decisive = None if decisive is None else place[decisive]

    def __call__(self, masks: ArrayLike) -> NDArray[np.float64]:
        """The outcome of each coalition.

        Parameters
        ----------
        masks
            ``(m, n)``, bool: in row k, whether each of the n players takes part.

        Returns
        -------
        ndarray
            ``(m,)``, float64, in units of the reward; 0 for nobody.

        Raises
        ------
        ParameterError
            Masks of another width.

        Notes
        -----
        O(m n) products for each subtask, and O(m) for each pair.
        """
        inside = np.asarray(masks, dtype=bool)
        if inside.ndim != 2 or inside.shape[1] != len(self.players):
            raise ParameterError(
                f"masks have the shape {inside.shape}, expected (m, {len(self.players)}): a column a player"
            )
        rows = max(1, _BLOCK // max(1, self._missed.size))
        parts = [self._worth(inside[k : k + rows]) for k in range(0, len(inside), rows)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _worth(self, inside: NDArray[np.bool_]) -> NDArray[np.float64]:
        failed = np.zeros(len(inside), bool) if self._decisive is None else inside[:, self._decisive]
        worth: NDArray[np.float64]
        if self._outcome == "linear":
            worth = inside @ self._sums - _ERROR_COSTS * failed
        else:
            solved = [
                np.where(inside, unspoilt, 1.0).prod(axis=1) - np.where(inside, missed, 1.0).prod(axis=1)
                for unspoilt, missed in zip(self._unspoilt, self._missed, strict=True)
            ]
            worth = _gate(solved) * np.where(failed, _ERROR_LEAVES, 1.0)
        for (first, second), weight in zip(self._ends, self._weights, strict=True):
            worth += weight * (inside[:, first] & inside[:, second])
        return worth


def _gate(solved: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len(solved) == 1:
        return solved[0]
    if len(solved) == 3:
        return _majority(*solved)
    return 1.0 - (1.0 - solved[0] * solved[1]) * (1.0 - _majority(*solved[2:]))


def _majority(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]) -> NDArray[np.float64]:
    return a * b + a * c + b * c - 2.0 * a * b * c


def game_of(truth: "Truth", trace_id: str, players: Sequence[Any] | None, unit: str) -> PlantedGame:
    """The game of one run among agents or events; `players` fixes who they are and their order."""
    table = truth.contributions if unit == "event" else truth.agents
    recorded = table.filter(trace_id=trace_id)["seq" if unit == "event" else "agent"].to_list()
    if not recorded:
        raise ParameterError(f"no trace of this corpus has the trace_id '{trace_id}'")
    if players is not None and sorted(players) != sorted(recorded):
        raise ParameterError(
            f"the players are not the {len(recorded)} {unit}s of trace '{trace_id}': give each of them once"
        )
    by_seq = truth.effects.filter(trace_id=trace_id)
    owner = dict(zip(by_seq["seq"], by_seq["seq" if unit == "event" else "agent"], strict=True))
    of_trace = truth.pairs.filter(trace_id=trace_id)
    pairs = pl.DataFrame(
        {
            "one": [owner[seq] for seq in of_trace["first"]],
            "other": [owner[seq] for seq in of_trace["second"]],
            "weight": of_trace["weight"],
        },
        schema_overrides={"weight": pl.Float64},
    )
    seq, agent = truth.decisive.filter(trace_id=trace_id).select("seq", "agent").row(0)
    return PlantedGame(
        truth.model,
        trace_id,
        recorded if players is None else list(players),
        by_seq.with_columns(player="seq" if unit == "event" else "agent"),
        pairs,
        seq if unit == "event" else agent,
    )
