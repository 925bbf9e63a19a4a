"""How smoothly the workbench scrolls through many pictures: frames a second in a headless Chromium. ::

    python benchmarks/workbench_scroll.py             # a minute; writes benchmarks/results/workbench_scroll.md
    python benchmarks/workbench_scroll.py --quick     # some seconds; writes into a temporary folder

50,000 pictures are different from one another, the server makes their thumbnails as they are asked for. The grid is
scrolled by so many pixels in each of 240 frames; what counts is the time from one frame to the next.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _report
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _script import Parser
from PIL import Image
from rich.console import Console

LEAST = 30  # frames a second
SPEEDS = (40, 120, 600, 20_000)  # pixels a frame
SCROLL = """([pixels, frames]) => new Promise(done => {
  const grid = document.getElementById('grid');
  const deltas = [];
  let last = performance.now();
  const step = now => {
    deltas.push(now - last);
    last = now;
    grid.scrollTop += pixels;
    if (deltas.length < frames) requestAnimationFrame(step);
    else done(deltas);
  };
  grid.scrollTop = 0;
  requestAnimationFrame(now => { last = now; requestAnimationFrame(step); });
})"""


def write_pictures(folder: Path, count: int) -> Path:
    rng = np.random.default_rng(0)
    names = [f"p{n:06}.png" for n in range(count)]
    for n, name in enumerate(names):
        colours = rng.integers(0, 255, size=(4, 4, 3), dtype=np.uint8)
        colours[0, 0] = (n % 256, n // 256 % 256, n // 65536)  # no two alike
        Image.fromarray(np.kron(colours, np.ones((16, 16, 1), np.uint8))).save(folder / name, compress_level=1)
    features = rng.normal(size=(count, 8)).astype(np.float32)
    pq.write_table(pa.table({"path": names, "embedding": list(features)}), folder / "pile.parquet")
    return folder / "pile.parquet"


def main() -> None:
    parser = Parser(__doc__, "about a minute")
    parser.add_size("--pictures", 50_000, 100, "pictures in the pile")
    parser.add_size("--frames", 240, 12, "frames at each speed")
    given = parser.parse()
    from playwright.sync_api import sync_playwright

    console = Console()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    header = ("pixels a frame", "frames a second, median", "worst frame, ms", f"frames below {LEAST} a second")
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        with console.status(f"Making {given.pictures:,} pictures …"):
            pile = write_pictures(Path(folder), given.pictures)
        command = [sys.executable, "-m", "handful", "workbench", str(pile), "--no-browser", "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            start = time.perf_counter()
            page.goto(url)
            page.wait_for_selector("html[data-ready]")
            page.locator(".tile").first.wait_for()
            opened = f"{given.pictures:,} pictures; the page opened in {time.perf_counter() - start:.1f} s."
            medians = []
            for pixels in SPEEDS:
                deltas = np.array(page.evaluate(SCROLL, [pixels, given.frames])[1:])
                medians.append(1000 / np.median(deltas))
                slow = f"{100 * np.mean(deltas > 1000 / LEAST + 1):.0f} %"
                rows.append((f"{pixels:,}", f"{medians[-1]:.0f}", f"{deltas.max():.0f}", slow))
            browser.close()
        finally:
            server.terminate()
            server.wait()
    section = _report.Section("Scrolling", header, rows)
    _report.show(console, section)
    sentences = [opened, f"At least {LEAST} frames a second: {'met' if min(medians) >= LEAST else 'MISSED'}."]
    console.print(*sentences, sep="\n")
    notes = [_report.about(__doc__), _report.machine(("handful", "playwright"))]
    path, title = given.output / "workbench_scroll.md", "Scrolling through the workbench"
    _report.write(console, path, title, [section], sentences, notes)


if __name__ == "__main__":
    main()
