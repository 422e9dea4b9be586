"""SHA-256 sums of what a release consists of, in the format of `sha256sum`.

python .ci/checksums.py write DIR      DIR/SHA256SUMS of all other files there
python .ci/checksums.py check DIR      whether every file is there as it was, and no other
"""

import hashlib
import sys
from pathlib import Path
from typing import Final

LIST: Final = "SHA256SUMS"


def sums(folder: Path) -> dict[str, str]:
    """The sum of every file of a folder but the list, by name."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != LIST:
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def main(arguments: list[str]) -> int:
    """What the command does."""
    if len(arguments) != 2 or arguments[0] not in ("write", "check"):
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[1])
    if not folder.is_dir():
        print(f"checksums: '{folder}' is not a folder", file=sys.stderr)
        return 1
    lines = [f"{told}  {name}\n" for name, told in sums(folder).items()]
    if arguments[0] == "write":
        (folder / LIST).write_text("".join(lines))
        print(f"checksums: wrote {LIST} of {len(lines)} files")
        return 0
    if not (folder / LIST).is_file():
        print(f"checksums: '{folder}' has no {LIST}", file=sys.stderr)
        return 1
    listed = (folder / LIST).read_text().splitlines(keepends=True)
    if odd := sorted({line.split()[-1] for line in set(listed) ^ set(lines)}):
        print(f"checksums: not as {LIST} says: {', '.join(odd)}", file=sys.stderr)
        return 1
    print(f"checksums: {len(lines)} files are as {LIST} says")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
