"""How to install what an extra of the package brings. The one place that says so."""


def install(extra: str) -> str:
    """Say how to get the libraries of an extra.

    No index has the package yet, so an extra is installed from where the package came from.

    Examples
    --------
    >>> from orchestrace.base.extras import install
    >>> install("plot")
    "pip install '.[plot]' in your clone of orchestrace"
    """
    return f"pip install '.[{extra}]' in your clone of orchestrace"
