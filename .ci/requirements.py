"""What the package and some of its extras need, a line each: `python .ci/requirements.py dev docs`."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
if unknown := [name for name in sys.argv[1:] if name not in extras]:
    sys.exit(f"requirements: no extra {unknown[0]}; there are {', '.join(extras)}")
print("\n".join([*project["dependencies"], *(line for name in sys.argv[1:] for line in extras[name])]))
