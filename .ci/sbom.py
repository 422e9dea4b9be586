"""Bills of materials in CycloneDX: what a wheel is made of, and what is installed with it.

    python .ci/sbom.py [--out DIR]       orchestrace-VERSION.cdx.json into dist/ (make sbom)

Crates are those that are linked on any system, with checksums from Cargo.lock and licenses from
.ci/crates.csv. Python packages are those of the active environment that the package depends on, with their
versions there. The same files and environment make the same bytes: they have no date and no drawn number.
"""

import argparse
import importlib.metadata
import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any, Final

import crates
from releases import ROOT, version

NAME: Final = "orchestrace"
Component = dict[str, Any]


def rust() -> list[Component]:
    """The crates of others that a compiled module has on some system.

    Raises
    ------
    crates.Fault
        Cargo cannot tell what is linked, or a crate's license is not recorded.
    """
    sums = {
        (one["name"], one["version"]): one.get("checksum")
        for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    }
    licenses = crates.recorded()
    made = []
    for name, told in crates.linked(host_only=False):
        if (name, told) not in licenses:
            raise crates.Fault(f"{name} {told} is not in {crates.LICENCES.name}: python .ci/crates.py write")
        url = f"pkg:cargo/{name}@{told}"
        made.append(
            {
                "type": "library",
                "bom-ref": url,
                "name": name,
                "version": told,
                "purl": url,
                "licenses": [{"expression": licenses[name, told].replace("/", " OR ")}],
                "hashes": [{"alg": "SHA-256", "content": sums[name, told]}],
            }
        )
    return made


def python() -> tuple[list[Component], dict[str, list[str]]]:
    """The Python packages that come with an installation here, and which of them needs which.

    Raises
    ------
    crates.Fault
        One of them is not installed here.
    """
    direct = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needs: dict[str, list[str]] = {NAME: [_named(one) for one in direct]}
    made: dict[str, Component] = {}
    waiting = list(needs[NAME])
    while waiting:
        name = waiting.pop()
        if name in made:
            continue
        try:
            about = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise crates.Fault(
                f"{name} is not installed here: run this where the package is installed"
            ) from None
        url = f"pkg:pypi/{name}@{about.version}"
        made[name] = {"type": "library", "bom-ref": url, "name": name, "version": about.version, "purl": url}
        if expression := about.metadata.get("License-Expression"):
            made[name]["licenses"] = [{"expression": expression}]
        needs[name] = [_named(one) for one in about.requires or [] if _applies(one)]
        waiting += needs[name]
    return [made[name] for name in sorted(made)], needs


def _named(requirement: str) -> str:
    return (
        re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")
    )


def _applies(requirement: str) -> bool:
    """Whether a requirement is one of this environment, extras left out."""
    _, _, marker = requirement.partition(";")
    if "extra" in marker:
        return False
    if not marker.strip():
        return True
    from packaging.markers import (
        Marker,
    )  # comes with maturin's build tools; needed only where a marker stands

    return Marker(marker.strip()).evaluate()


def bill() -> dict[str, Any]:
    """The whole bill of materials."""
    own = f"pkg:pypi/{NAME}@{version()}"
    of_rust, (of_python, needs) = rust(), python()
    urls = {one["name"]: one["bom-ref"] for one in of_python} | {NAME: own}
    edges = {urls[name]: sorted({urls[one] for one in ones}) for name, ones in needs.items()}
    edges[own] = sorted([*edges[own], *(one["bom-ref"] for one in of_rust)])
    components = [*of_rust, *of_python]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, components, edges], sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": NAME,
                "version": version(),
                "purl": own,
                "licenses": [{"expression": "MIT"}],
            }
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": on} for ref, on in sorted(edges.items())],
    }


def main(arguments: list[str]) -> int:
    """What the command does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args(arguments)
    try:
        made = bill()
    except crates.Fault as fault:
        print(f"sbom: {fault}", file=sys.stderr)
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"{NAME}-{version()}.cdx.json"
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    cargo = sum(one["purl"].startswith("pkg:cargo/") for one in made["components"])
    print(f"sbom: wrote {path.name}: {cargo} crates, {len(made['components']) - cargo} Python packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
