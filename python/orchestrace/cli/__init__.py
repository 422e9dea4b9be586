"""The command `orchestrace`: one verb per function of the library, one file per group of verbs."""

import sys

from . import codes, crediting, distributing, exporting, measuring, reading, replaying, viewing
from .application import FAILED, STOPPED, app, buffer_output, drop_unwritten, tell
from .mapping import mapping_app
from .stopping import stopping_app
from .study import study_app

__all__ = [
    "app",
    "codes",
    "crediting",
    "distributing",
    "exporting",
    "main",
    "measuring",
    "reading",
    "replaying",
    "viewing",
]

app.add_typer(study_app, name="study")
app.add_typer(mapping_app, name="mapping")
app.add_typer(stopping_app, name="stopping")


def main() -> None:
    """What the installed command runs."""
    try:
        buffer_output()
        app(prog_name="orchestrace")
    except KeyboardInterrupt:  # while modules are loaded; once a verb runs, it says what is kept
        print("stopped", file=sys.stderr)
        sys.exit(STOPPED)
    except OSError as error:  # of help, which is printed before a verb runs
        tell(error)
        sys.exit(FAILED)
    finally:
        drop_unwritten()
