"""Sizes of viewer pages and pictures a second while they play, in the Chromium of this machine.

    .venv/bin/python -m benchmarks.viewer

Chromium draws on the processor here (SwiftShader), so that pictures a second say little of a machine with a graphics
card.  The last column does not depend on that: the time that the page itself takes for a picture, without drawing it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import holonax as hx

SYSTEMS = hx.systems
CASES = {
    "pendulum, 1000 paths x 300 times": (SYSTEMS.pendulum(), hx.Kicked(), {"t1": 299 / 32, "h": 2**-5, "paths": 1000}),
    "torus, 10000 points": (SYSTEMS.torus(), hx.Kicked(), {"t1": 39 / 32, "h": 2**-5, "paths": 10000}),
    "rigid body, 300 paths": (SYSTEMS.rigid_body(), hx.Kicked(), {"t1": 8.0, "h": 2**-5, "paths": 300}),
    "chain of 64, 20 paths": (SYSTEMS.chain(64), hx.Rattle(), {"t1": 2.0, "h": 2**-7, "save_every": 4, "paths": 20}),
}
FLAGS = "--no-sandbox --ignore-gpu-blocklist --use-angle=swiftshader --enable-unsafe-swiftshader"
PLAY = """async () => {
  holonax.play(true);
  const render = holonax.stage.renderer.render.bind(holonax.stage.renderer);
  let own = 0, drawing = 0;
  holonax.stage.renderer.render = (...all) => {
    const t = performance.now();
    render(...all);
    drawing += performance.now() - t;
  };
  const frame = holonax.frame.bind(holonax);
  holonax.frame = (stamp) => { const t = performance.now(); frame(stamp); own += performance.now() - t; };
  const before = holonax.drawn, begin = performance.now();
  await new Promise((done) => setTimeout(done, 4000));
  const pictures = holonax.drawn - before;
  return [1000 * pictures / (performance.now() - begin), (own - drawing) / pictures];
}"""


def measure(browser: Browser, file: Path) -> tuple[float, float]:
    """Pictures a second, and milliseconds of the page's own work for one."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(file.as_uri())
    page.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    rate, own = page.evaluate(PLAY)
    page.close()
    return rate, own


def main() -> None:
    """A line for every case."""
    chromium = shutil.which("chromium") or sys.exit("there is no Chromium on this machine")
    say = sys.stdout.write
    say(f"{'':34}{'MB':>6}{'s to make':>11}{'pictures/s':>12}{'own ms':>8}\n")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=chromium, args=FLAGS.split())
        for name, (entry, method, options) in CASES.items():
            run = hx.simulate(entry.system, method, entry.start, seed=0, progress=False, **options)
            begin = time.perf_counter()
            page = run.view(Path(folder) / "page.html")
            seconds = time.perf_counter() - begin
            rate, own = measure(browser, Path(folder) / "page.html")
            say(f"{name:34}{len(page.html) / 1e6:6.2f}{seconds:11.1f}{rate:12.1f}{own:8.2f}\n")
            say("".join(f"    {note}\n" for note in page.notes))
        browser.close()


if __name__ == "__main__":
    main()
