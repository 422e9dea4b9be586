"""The report of a study: a page that opens anywhere, its twin in Markdown, figures for papers."""

import os
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from .. import _core
from ..base.errors import ParameterError
from ..base.publication import published_file
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..scaling.published_sizes import list_envelopes as published
from .envelope_map import checked, recorded
from .folder import StudyFolder
from .load import tables
from .measure import FAILED, OK, REFUSED, TOO_SLOW
from .page import html_page, markdown_page
from .sections import Drawn, sections_of
from .sheet import drawing


@verb
def report(
    folder: str | os.PathLike[str],
    *,
    envelopes: pl.DataFrame | None = None,
    corpora: Mapping[str, Corpus] | None = None,
    downscaled: pl.DataFrame | None = None,
) -> list[Path]:
    """Write the results of a study as one HTML file that opens offline, as Markdown, and as figures.

    Parameters
    ----------
    folder
        What `run` wrote, complete or not.
    envelopes
        Published systems, a row each: ``system kind agents_max steps_max`` and, if there, ``scope source
        note``; what is null stays blank. None takes those of this package, where it has them.
    corpora
        Recordings by name: where their runs lie on the map.
    downscaled
        What `downscale` returned for recordings: its trend becomes a figure.

    Returns
    -------
    list of Path
        ``report.html``, ``report.md``, and an SVG and a PNG for each figure in ``figures/``.

    Raises
    ------
    ParameterError
        Altair or vl-convert is not installed (the extra ``plot``), nothing is measured yet,
        or a frame lacks a column.
    InputError
        The folder has no study.

    Notes
    -----
    Every number is computed from the tables of the folder and the arguments; captions say whether a figure is
    of synthetic or recorded runs, how many, and what its intervals are. A value from fewer than five tasks is
    shown with its interval and marked (a hollow point, † in tables); no conclusion rests on it. A method has
    one color in all figures. A few seconds.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> config = {
    ...     "sizes": [{"events": n, "agents": 3, "traces": 48} for n in (10, 40)],
    ...     "presets": {"additive": {"outcome": "linear"}},
    ...     "methods": ["flow"], "units": ["agent"], "slots": [1, 2],
    ... }
    >>> folder = tempfile.mkdtemp()
    >>> _ = ot.study.run(config, folder, workers=0)
    >>> [path.name for path in ot.study.report(folder)][:2]
    ['report.html', 'report.md']
    """
    place = StudyFolder.opened(folder)
    frames = tables(place)
    if frames["cells"].is_empty():
        raise ParameterError(f"nothing is measured in '{place.path}' yet: orchestrace study run")
    drawing()
    drawn = Drawn()
    systems = _envelopes(envelopes)
    sections = sections_of(place.config, frames, systems, recorded(corpora or {}), downscaled, drawn)
    title, meta = "The scaling gap, measured", _meta(place, frames["cells"])
    written = []

    def write(target: Path, content: bytes) -> None:
        with published_file(target, overwrite=True) as file:
            file.write(content)
        written.append(target)

    write(place.path / "report.html", html_page(title, meta, sections).encode())
    write(place.path / "report.md", markdown_page(title, meta, sections).encode())
    (place.path / "figures").mkdir(exist_ok=True)
    for name, (svg, png) in drawn.files.items():
        write(place.path / "figures" / f"{name}.svg", svg.encode())
        write(place.path / "figures" / f"{name}.png", png)
    return written


def _envelopes(envelopes: pl.DataFrame | None) -> pl.DataFrame:
    if envelopes is not None:
        return checked(envelopes)
    return checked(published())


def _meta(place: StudyFolder, cells: pl.DataFrame) -> str:
    config = place.config
    counts = {status: cells.filter(status=status).height for status in (OK, TOO_SLOW, REFUSED, FAILED)}
    states = f"{counts[OK]:,} measured, {counts[TOO_SLOW]:,} too slow, {counts[REFUSED]:,} refused"
    if counts[FAILED]:
        states += f", {counts[FAILED]:,} failed"
    corpora = "one corpus" if config.replicates == 1 else f"{config.replicates} corpora"
    return (
        f"orchestrace {_core.VERSION}; configuration `{config.digest()}`, seed {config.seed}, {corpora} for"
        f" each world and size; {cells.height:,} cells of credit: {states}; budget {config.budget_s:g} s for"
        " a call."
    )
