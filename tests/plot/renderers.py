"""Renderers of pictures whose fonts are chosen here, whatever is installed on the machine.

vl-convert brings Liberation Sans, and takes letters that this lacks from the fonts of the machine. A child
process whose list of fonts is one folder sees none of them.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib.tables._c_m_a_p import CmapSubtable

Fonts = Literal["none", "narrow", "wide", "widest", "Arial"]
"""What there is beside Liberation Sans: nothing, other letters of such widths, or an Arial of wide ones."""
_EM: Final = 1000
_FAMILIES: Final[dict[Fonts, tuple[str, int]]] = {
    "narrow": ("Blocks", _EM // 20),
    "wide": ("Blocks", _EM),
    "widest": ("Blocks", _EM * 5 // 4),
    "Arial": ("Arial", _EM),
}
_LATIN_ENDS: Final = 0x250
_CONFIG: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{}</dir></fontconfig>
"""
_CHILD: Final = """
import json, sys
import vl_convert
for line in sys.stdin:
    print(json.dumps(vl_convert.vegalite_to_svg(line)), flush=True)
"""


class Renderer:
    """A process that draws with Liberation Sans and at most one font more."""

    def __init__(self, fonts: Fonts) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="orchestrace-fonts-")
        place = Path(self._folder.name)
        (place / "fonts").mkdir()
        if fonts != "none":
            _write_font(place / "fonts" / "blocks.ttf", *_FAMILIES[fonts])
        (place / "fonts.conf").write_text(_CONFIG.format(place / "fonts"), encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "FONTCONFIG_FILE": str(place / "fonts.conf"), "PYTHONIOENCODING": "utf-8"},
        )

    def svg(self, spec: dict[str, object]) -> str:
        """The SVG of a specification of Vega-Lite."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(spec), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"the renderer ended with {self._process.wait()}; the reason is on standard error"
        return str(json.loads(line))


@functools.cache
def renderer(fonts: Fonts) -> Renderer:
    """One that all tests of a process share; it ends with them, since nobody writes to it any more."""
    return Renderer(fonts)


def _write_font(path: Path, family: str, width: int) -> None:
    """A font in which every letter is a block of one width."""
    pen = TTGlyphPen(None)
    for move, corner in zip(
        (pen.moveTo, pen.lineTo, pen.lineTo, pen.lineTo),
        ((0, 0), (0, 700), (width, 700), (width, 0)),
        strict=True,
    ):
        move(corner)
    pen.closePath()
    block = pen.glyph()
    font = FontBuilder(_EM, isTTF=True)
    font.setupGlyphOrder([".notdef", "block"])
    letters = CmapSubtable.newSubtable(13)  # the format in which many letters have one glyph
    letters.platformID, letters.platEncID, letters.language, letters.reserved = 3, 10, 0, 0
    first = 0x20 if family == "Arial" else _LATIN_ENDS
    letters.cmap = {letter: "block" for letter in range(first, 0x30000) if not 0xD800 <= letter < 0xE000}
    font.setupCharacterMap({})
    font.font["cmap"].tables = [letters]
    font.setupGlyf({".notdef": block, "block": block})
    font.setupHorizontalMetrics({".notdef": (width, 0), "block": (width, 0)})
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": family, "styleName": "Regular", "psName": f"{family}-Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)
