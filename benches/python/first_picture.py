"""The picture of README.md: what credit methods find of planted contributions as runs grow.

python benches/python/first_picture.py --svg docs/pictures/credit-and-length.svg

One world of the study with five sizes of runs. The same picture every time, in ten seconds.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

CONFIG: dict[str, Any] = {
    "sizes": [
        {"events": 10, "agents": 2, "traces": 256},
        {"events": 30, "agents": 4, "traces": 256},
        {"events": 100, "agents": 8, "traces": 256},
        {"events": 300, "agents": 20, "traces": 128},
        {"events": 1000, "agents": 50, "traces": 64},
    ],
    "presets": {"planted runs": {"outcome": "linear", "depth": 3, "branching": 20}},
    "methods": [
        {"name": "gae", "params": {"rows": "events", "lambda_": 0.0, "gamma": 1.0}},
        "gae",
        "dag_gae",
        "c3",
        "flow",
    ],
    "units": ["event"],
}
FIGURE = "rank-event.svg"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--svg", help="file for the picture")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = ot.study.run(CONFIG, folder, workers=0)
        with pl.Config(tbl_rows=-1, fmt_str_lengths=60):
            print(table.select("events", "method", "rho", "rho_lower", "rho_upper"))
        if options.svg:
            ot.study.report(folder)
            shutil.copyfile(Path(folder) / "figures" / FIGURE, options.svg)


if __name__ == "__main__":
    main()
