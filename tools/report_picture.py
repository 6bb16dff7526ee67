"""docs/report.png: the top of a run's report, as a browser shows it. `make picture`, after `make repro`.

Needs chromium and chromedriver on PATH.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from tests.report import browser

PAGE, PICTURE = Path("reports/index.html"), Path("docs/report.png")
WIDTH, MOST_BYTES = 880, 250_000


def main() -> None:
    """Picture the page down to the criteria's chart, in few colours: it is text and flat shapes."""
    reason = browser.missing() or (None if PAGE.exists() else f"{PAGE}: no such file; run `make repro`")
    if reason:
        sys.exit(f"error: {reason}")
    with browser.Browser() as window:
        window.open(PAGE, width=WIDTH)
        end = window.run("return document.querySelector('#criteria figure').getBoundingClientRect().bottom + scrollY")
        window.screenshot(PICTURE, height=round(end) + 12)
    Image.open(PICTURE).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    size = PICTURE.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"error: {PICTURE}: {size:,} bytes, more than {MOST_BYTES:,}")
    print(f"{PICTURE}: {size:,} bytes")


if __name__ == "__main__":
    main()
