"""Pictures of the built site for the README: the front page and five chapters, taken anew.

python benchmarks/screenshots.py [BUILD [FOLDER]]   # else site/build and docs/screenshots; needs playwright
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

PAGES = {
    "home": "index.html",
    "claims": "claims/index.html",
    "faults": "detection.html",
    "long-context": "long-context.html",
    "memory": "budget.html",
    "simulator": "fidelity.html",
}
VIEW = {"width": 1440, "height": 968}
SCALE = 2 / 3  # pixels of the picture for one of the page


def take(build: Path, folder: Path) -> list[Path]:
    """One PNG a page, as a reader meets it: at the top, in light, nothing moving."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEW, device_scale_factor=SCALE, reduced_motion="reduce")
        for name, place in PAGES.items():
            page.goto((build.resolve() / place).as_uri(), wait_until="load")
            found.append(folder / f"{name}.png")
            page.screenshot(path=found[-1])
        browser.close()
    return found


if __name__ == "__main__":
    given = [*sys.argv[1:], "site/build", "docs/screenshots"]
    for taken in take(Path(given[0]), Path(given[1] if len(sys.argv) != 2 else given[2])):
        print(taken)
