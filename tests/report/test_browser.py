"""The page in a real browser: nothing on the console, nothing wider than a phone, text one can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report import browser, tree

REASON = browser.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

# Every element that holds text of its own and is shown: its colour (or fill) against the nearest painted background.
CONTRAST = """
const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
const lum = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                   return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const under = el => { for (; el; el = el.parentElement) { const c = parse(getComputedStyle(el).backgroundColor); if (c[3] > 0) return c; }
                      return [255, 255, 255, 1]; };
const bad = [];
for (const el of document.querySelectorAll('body *')) {
  if (![...el.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  if (['STYLE', 'TITLE', 'title'].includes(el.tagName) || !el.getClientRects().length) continue;
  const s = getComputedStyle(el), inSvg = el.namespaceURI.endsWith('svg');
  const a = lum(parse(inSvg ? s.fill : s.color)), b = lum(under(el));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.push([el.tagName, el.textContent.trim().slice(0, 40), ratio]);
}
return bad;
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(tree.html(root), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def window():
    with browser.Browser() as found:
        yield found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_a_contrast_of_4_5(window, report: Path, dark: bool) -> None:
    window.open(report, dark=dark)
    window.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert window.run(CONTRAST) == []


def test_dark_and_light_are_different_pages(window, report: Path) -> None:
    colours = []
    for dark in (False, True):
        window.open(report, dark=dark)
        colours.append(window.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]


@pytest.mark.parametrize("width", [390, 768, 1200])
def test_nothing_is_wider_than_the_window_even_with_everything_open(window, report: Path, width: int) -> None:
    window.open(report, width=width)
    window.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert window.run("return document.documentElement.scrollWidth") <= width


def test_text_in_charts_stays_readable_on_a_phone(window, report: Path) -> None:
    window.open(report, width=390)
    smallest = window.run(
        "return Math.min(...[...document.querySelectorAll('figure svg text')].map(t => "
        "parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)))"
    )
    assert smallest >= 7.5


def test_the_console_stays_silent_and_no_request_leaves_the_file(window, report: Path) -> None:
    window.open(report)
    assert window.console() == []
    assert window.run("return performance.getEntriesByType('resource').length") == 0


def test_every_link_in_the_contents_leads_somewhere(window, report: Path) -> None:
    window.open(report)
    dead = window.run(
        "return [...document.querySelectorAll('nav a')].map(a => a.hash).filter(h => !document.querySelector(h))"
    )
    assert dead == []


def test_no_id_stands_twice(window, report: Path) -> None:
    window.open(report)
    twice = window.run(
        "const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.filter((v, i) => ids.indexOf(v) !== i)"
    )
    assert twice == []
