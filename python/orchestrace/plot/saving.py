"""Charts as files: SVG, PNG, or a page that opens offline."""

import os
from pathlib import Path
from typing import Annotated, Any, Final

from ..base.arguments import Number
from ..base.errors import ParameterError
from ..base.extras import install
from ..base.publication import published_file, target_of
from ..base.verbs import verb

_KINDS: Final = (".svg", ".png", ".html")


@verb
def save(
    chart: Any,
    path: str | os.PathLike[str],
    *,
    scale: Annotated[float, Number(above=0, high=8)] = 2.0,
    overwrite: bool = False,
) -> Path:
    """Write a chart as a file, whole or not at all: ``.svg``, ``.png``, or ``.html`` that opens offline.

    Parameters
    ----------
    chart
        A chart of this namespace, or any other of Altair.
    path
        The file; its ending says what is written. The page has the scripts inside, some 1 MB.
    scale
        Pixels of the PNG for each of the chart, above 0 and at most 8.
    overwrite
        Replace a file that exists.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ParameterError
        Altair or vl-convert is not installed, no chart, another ending, or a scale out of range.
    InputError
        The file exists and `overwrite` is false, or it cannot be written.

    Notes
    -----
    Nothing is fetched. A second or less.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> chart = ot.plot.spawn_tree(ot.generate(traces=1, seed=0), 0)
    >>> ot.plot.save(chart, f"{tempfile.mkdtemp()}/tree.svg").name
    'tree.svg'
    """
    target = target_of(path)
    if not isinstance(target, Path):
        raise ParameterError(f"path is of type {type(path).__name__}, expected the name of a file")
    if target.suffix.lower() not in _KINDS:
        raise ParameterError(f"path '{target}' must end in one of {', '.join(_KINDS)}")
    if not (hasattr(chart, "to_json") and hasattr(chart, "properties")):
        raise ParameterError(f"chart is of type {type(chart).__name__}, expected a chart")
    try:
        import vl_convert
    except ImportError:
        raise ParameterError(f"saving plots needs vl-convert: {install('plot')}") from None
    spec = chart.to_json()
    if target.suffix.lower() == ".svg":
        content = vl_convert.vegalite_to_svg(spec).encode()
    elif target.suffix.lower() == ".png":
        content = vl_convert.vegalite_to_png(spec, scale=float(scale))
    else:
        content = vl_convert.vegalite_to_html(spec, bundle=True).encode()
    with published_file(target, overwrite=overwrite) as file:
        file.write(content)
    return target
