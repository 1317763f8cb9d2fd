"""The viewer in Chromium, without a network: it draws, plays, obeys keys, and shows the numbers of the run."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from ensembles import ALL, pendulum
from PIL import Image

import holonax as hx
from support import heavy

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --ignore-gpu-blocklist --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --disable-quic"
)
SCREENSHOTS = Path(__file__).parent.parent.parent / "out" / "screenshots"

SCREENSHOTS.mkdir(parents=True, exist_ok=True)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine; .ci/run installs it")


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        started = tool.chromium.launch(executable_path=BROWSER, args=FLAGS.split())
        yield started
        started.close()


@pytest.fixture
def look(browser, tmp_path):
    """Open a run (or a page) in a tab of its own; whatever the browser complains of fails the test."""
    complaints, contexts, requests = [], [], []

    def opened(run, width=960, height=640, **options):
        page = run if isinstance(run, hx.viewer.page.Page) else run.view()
        file = page.save(tmp_path / "page.html")
        options = {"reduced_motion": "reduce", "viewport": {"width": width, "height": height}} | options
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_offline(True)
        context.on("request", lambda request: requests.append(request.url))
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(file.as_uri())
        tab.wait_for_function("document.documentElement.dataset.ready === 'yes'")
        settle(tab)
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
    assert not [address for address in requests if not address.startswith(("file:", "about:", "data:"))]


def settle(tab):
    """Wait until what was asked for has been drawn."""
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def picture(tab):
    """Without the edge, which shows where the keys go."""
    seen = np.asarray(Image.open(io.BytesIO(tab.locator("#view").screenshot())).convert("RGB")).astype(int)
    return seen[8:-8, 8:-8]


def drawn(tab):
    """How many pixels of the left half, where no panel is, differ from the background."""
    seen = picture(tab)
    seen = seen[90:-90, 90 : seen.shape[1] // 2]
    return int((np.abs(seen - seen[0, 0]).sum(axis=-1) > 24).sum())


def frame(tab):
    return tab.evaluate("holonax.time")


def shown_numbers(tab):
    """What the card of a path shows, with all digits."""
    names = tab.locator("#numbers dt").all_inner_texts()
    return dict(
        zip(names, tab.locator("#numbers dd").evaluate_all("all => all.map(x => x.dataset.value)"), strict=True)
    )


@pytest.mark.parametrize("name", [name if name == "pendulum" else heavy(name) for name in ALL])
def test_the_viewer_draws_plays_obeys_and_shows_the_numbers_of_the_run(look, name):
    run = ALL[name]()
    tab = look(run)
    last, time = len(run.t) - 1, 20
    assert frame(tab) == 0
    tab.evaluate(f"holonax.seek({time})")
    settle(tab)
    tab.screenshot(path=SCREENSHOTS / f"{name}.png")
    assert drawn(tab) > 300
    path, x, y = tab.evaluate(CLICKABLE)
    tab.mouse.click(x, y)
    settle(tab)
    assert tab.evaluate("holonax.picked") == path
    assert tab.locator("#who").inner_text().split(",")[0] == f"Path {path}"
    numbers = shown_numbers(tab)
    coordinates = [key for key in numbers if key.startswith("q[")]
    assert len(coordinates) == (run.q.shape[-1] if run.q.shape[-1] <= 12 else 3)
    for key in coordinates:
        assert float(numbers[key]) == run.q[path, time, int(key[2:-1])]  # not rounded: all digits are in the page
    assert numbers["status"] == "converged"
    assert float(numbers["time"]) == run.t[time]
    energy = run.model.energy(run.q[path, time], run.p[path, time])
    np.testing.assert_allclose(float(numbers["energy"]), energy, rtol=1e-9, atol=1e-9)
    tab.screenshot(path=SCREENSHOTS / f"{name}_picked.png")
    tab.keyboard.press("Escape")
    assert tab.evaluate("holonax.picked") == -1
    tab.keyboard.press("Home")
    assert frame(tab) == 0
    tab.keyboard.press("ArrowRight")
    assert frame(tab) == 1
    tab.keyboard.press("End")
    assert frame(tab) == last
    tab.locator("#scrub").fill("3")
    assert frame(tab) == 3
    tab.locator("#view").focus()
    tab.keyboard.press(" ")
    tab.wait_for_function("holonax.time > 4")
    tab.keyboard.press(" ")
    stopped = frame(tab)
    settle(tab)
    assert frame(tab) == stopped > 4
    assert tab.locator("#clock").inner_text().startswith("t = ")


CLICKABLE = """
(() => {  // some point that is not below the panel or another point
  const { orbit, scene, stage, time } = holonax, box = document.getElementById("view").getBoundingClientRect();
  for (let point = 0; point < scene.count; point++) {
    const seen = stage.place(time, point).project(orbit.camera);
    const [x, y] = [box.left + (seen.x + 1) / 2 * box.width, box.top + (1 - seen.y) / 2 * box.height].map(Math.round);
    const free = x > 0 && document.elementFromPoint(x, y) === document.getElementById("view");
    if (free && holonax.nearest(x - box.left, y - box.top, 14) === point)
      return [Math.floor(point / scene.each), x, y];
  }
})()
"""


@pytest.mark.study
def test_mouse_colours_theme_and_help(look):
    tab = look(pendulum())
    tab.evaluate("holonax.seek(40)")
    settle(tab)
    before = picture(tab)
    tab.mouse.move(300, 300)
    tab.mouse.down()
    tab.mouse.move(380, 330, steps=4)
    tab.mouse.up()
    tab.mouse.wheel(0, -300)
    settle(tab)
    turned = picture(tab)
    assert (before != turned).any(axis=-1).mean() > 0.01
    tab.keyboard.press("r")
    settle(tab)
    assert np.array_equal(picture(tab), before)
    colours = tab.locator("#colour option").all_inner_texts()
    assert colours == ["energy", "q[0]", "q[1]", "q[2]", "status", "none"]
    tab.locator("#colour").select_option(label="q[2]")
    settle(tab)
    assert (picture(tab) != before).any(axis=-1).sum() > 100
    tab.locator("#theme").click()
    settle(tab)
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert picture(tab)[5, 5].sum() < 150 < before[5, 5].sum()
    tab.screenshot(path=SCREENSHOTS / "pendulum_dark.png")
    tab.keyboard.press("?")
    assert tab.locator("#help").is_visible()
    tab.screenshot(path=SCREENSHOTS / "help.png")
    tab.locator("#help button").click()
    tab.keyboard.press("+")
    assert tab.locator("#speed").inner_text() == "2×"
    box = tab.locator("#plot").bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    assert 20 < frame(tab) < 44


@pytest.mark.study
def test_a_phone_in_the_dark(look):
    tab = look(pendulum(), 390, 844, color_scheme="dark", has_touch=True, device_scale_factor=2)
    tab.evaluate("holonax.seek(40)")
    settle(tab)
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    for name in ("#play", "#scrub", "#plot", "#title"):
        box = tab.locator(name).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["y"] + box["height"] <= 844
    tab.screenshot(path=SCREENSHOTS / "phone.png")


def test_names_are_text_and_a_notebook_shows_the_page(browser, look, tmp_path):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    page = pendulum().view(title=evil, quantities={evil: lambda q, p: q[0], "NaN": lambda q, p: q[0] / 0})
    tab = look(page)
    assert tab.locator("#title").inner_text().lower() == evil.lower()
    assert tab.title() == evil
    assert evil in tab.locator("#quantity option").all_inner_texts()
    assert tab.locator("img").count() == 0
    tab.locator("#quantity").select_option(label="NaN")
    tab.locator("#colour").select_option(label="NaN")
    settle(tab)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><body>{pendulum().view()._repr_html_()}</body>")
    tab.goto(notebook.as_uri())
    inside = tab.frame_locator("iframe")
    inside.locator("html[data-ready=yes]").wait_for(state="attached")
    assert inside.locator("#title").inner_text() == "Pendulum"


def test_failed_paths_stand_still_in_their_colour_and_one_time_is_enough(look):
    entry = hx.systems.pendulum(sigma=2.0)
    run = hx.simulate(
        entry.system, hx.Rattle(), entry.start, t1=40.0, h=0.5, paths=50, on_failure="mark", progress=False
    )
    failed = np.flatnonzero(run.status)
    assert len(failed) > 0
    tab = look(run)
    assert f"{len(failed)} of 50 paths failed" in tab.locator("#notes").inner_text()
    tab.keyboard.press("End")
    tab.locator("#colour").select_option("status")
    tab.evaluate(f"holonax.pick({failed[0]})")
    settle(tab)
    assert shown_numbers(tab)["status"] == hx.Status(run.status[failed[0]]).name.lower().replace("_", " ")
    tab.screenshot(path=SCREENSHOTS / "failed.png")
    end = hx.simulate(entry.system, hx.Rattle(), entry.start, t1=0.5, h=2**-5, paths=9, save_every=None)
    tab = look(end)
    assert "nothing to play" in tab.locator("#notes").inner_text()
    assert tab.locator("#play").is_disabled()
    assert json.loads(tab.locator("#scene").inner_text())["t"] == [0.5]
