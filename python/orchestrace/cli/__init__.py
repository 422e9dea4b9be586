"""The command `orchestrace`: one verb per function of the library, one file per verb."""

import sys
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..base.deferred import Deferred
from ..base.namespaces import load_lazily
from ..base.start import end_at_interrupts
from .output import FAILED, STOPPED, buffer_output, drop_unwritten, print_error

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .application import app as app

application: Any = Deferred("orchestrace.cli.application")


load_lazily(__name__)


def main() -> None:
    """What the installed command runs."""
    try:
        buffer_output()
        end_at_interrupts()
        if sys.argv[1:] == ["--version"]:  # without Typer, whose import takes longer than the answer
            print(__version__, flush=True)
        else:
            application.app(prog_name="orchestrace")
    except KeyboardInterrupt:  # before a verb runs; once it does, it says what is kept
        print("stopped", file=sys.stderr)
        sys.exit(STOPPED)
    except OSError as error:  # of help, which is printed before a verb runs
        print_error(error)
        sys.exit(FAILED)
    finally:
        drop_unwritten()
