"""The place of the sample corpus: an installed package, or `data/samples` of a checkout."""

from pathlib import Path

from ..base.errors import InputError


def samples_path() -> Path:
    """The folder of the sample corpus.

    Examples
    --------
    >>> from orchestrace.corpus.samples import samples_path
    >>> samples_path().is_dir()
    True
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_samples", package.parent.parent / "data" / "samples"):
        if folder.is_dir():
            return folder
    raise InputError(f"the sample corpus is missing: no folder '{package / '_samples'}'")
