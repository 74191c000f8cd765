"""How long a report page is, and how soon it is ready: `python benchmarks/report_page.py report.html`.

Screens of 1440 × 900 and 390 × 844, how far down the overview ends, milliseconds until the page is ready (the
best of three), and pages of A4. It needs playwright and a chromium.
"""

from __future__ import annotations

import re
import shutil
import sys
import zlib
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

SCREENS = {"desktop": (1440, 900), "phone": (390, 844)}
LIMITS = {"desktop": 9, "phone": 20}  # screens
OVERVIEW, READY, PAPER = 1.5, 1000, 12  # screens, milliseconds, pages


def open_page(browser: Browser, path: Path, width: int, height: int) -> Page:
    """The page, when it is ready."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready]")
    return page


def count_pages(pdf: bytes) -> int:
    """The pages of a PDF, whose objects may be deflated."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    texts = [pdf, *(zlib.decompress(one) for one in streams if one[:1] == b"\x78")]
    return sum(len(re.findall(rb"/Type\s*/Page\b(?!s)", text)) for text in texts)


def main() -> None:
    """Measure one page; exit code 1 if something is beyond its limit."""
    path = Path(sys.argv[1])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        rows: list[tuple[str, float, float]] = []
        for name, (width, height) in SCREENS.items():
            page = open_page(browser, path, width, height)
            rows.append(
                (f"screens, {name}", page.evaluate("document.body.scrollHeight") / height, LIMITS[name])
            )
            if name == "desktop":
                end = page.evaluate("document.querySelector('#panels').getBoundingClientRect().bottom")
                rows.append(("screens, overview", end / height, OVERVIEW))
                rows.append(("pages of A4", count_pages(page.pdf(prefer_css_page_size=True)), PAPER))
        ready = min(
            int(str(open_page(browser, path, 1440, 900).get_attribute("html", "data-ready")))
            for _ in range(3)
        )
        rows.append(("ready, milliseconds", ready, READY))
    for name, value, limit in rows:
        print(f"{name:22} {value:8.1f}   at most {limit}")
    sys.exit(any(value > limit for _, value, limit in rows))


if __name__ == "__main__":
    main()
