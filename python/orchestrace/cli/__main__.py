"""The entry point of ``python -m orchestrace.cli``."""

from . import main

main()
