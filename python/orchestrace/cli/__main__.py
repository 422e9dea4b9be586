"""``python -m orchestrace.cli``, where the command is not installed."""

from . import main

main()
