"""What keeps people from using a page by keyboard alone, with a screen reader, enlarged, narrow or dark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from playwright.sync_api import Page

STANDARDS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""The rules that are checked, by axe's names: WCAG 2.2 AA, and what its authors advise beyond it."""

WINDOWS: Mapping[str, Mapping[str, Any]] = {
    "wide": {},
    "dark": {"color_scheme": "dark"},
    "320 pixels": {"viewport": {"width": 320, "height": 640}},
    "200 % zoom": {"viewport": {"width": 640, "height": 360}, "device_scale_factor": 2},
}
"""Windows in which a page must do, as options of `browsing.opened`."""

MOST_STOPS = 300
"""More elements than any page here lets the keyboard stop at: a focus that is caught for ever ends a test."""

FIND_ELEMENTS = """
    const elements = [];
    const collect = (root) => {
        for (const element of root.querySelectorAll("*")) {
            elements.push(element);
            if (element.shadowRoot) collect(element.shadowRoot);
        }
    };
    collect(document);
"""

DESCRIBE = """
    const describe = (element) => element.outerHTML.slice(0, 120);
"""

STOP = f"""() => {{
    {DESCRIBE}
    let active = document.activeElement;
    while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
    if (!active || active === document.body || active === document.documentElement) return null;
    const style = getComputedStyle(active);
    const box = active.getBoundingClientRect();
    const [x, y] = [box.left + box.width / 2, box.top + Math.min(box.height / 2, 20)];
    const top = active.getRootNode().elementFromPoint(x, y);
    const isOutlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    const isOnTop = top !== null && (active.contains(top) || top.contains(active));
    return {{ number: window.expectedStops.indexOf(active), html: describe(active), isOutlined, isOnTop }};
}}"""

EXPECTED_STOPS = f"""() => {{
    {FIND_ELEMENTS} {DESCRIBE}
    const stops = "a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary, [tabindex='0']";
    const isReachable = (element) => element.matches(stops) && element.tabIndex >= 0 && element.checkVisibility();
    const open = document.querySelector("dialog:modal");
    window.expectedStops = elements.filter((element) => isReachable(element) && (!open || open.contains(element)));
    return window.expectedStops.map(describe);
}}"""

LISTEN = f"""() => {{
    {FIND_ELEMENTS}
    window.announced = [];
    const LIVE = "[aria-live=polite], [aria-live=assertive], [role=status], [role=alert]";
    const hear = (records) => {{
        const regions = new Set();
        for (const {{ target }} of records) {{
            const element = target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement;
            const region = element?.closest(LIVE);
            if (region?.checkVisibility()) regions.add(region);
        }}
        for (const {{ textContent }} of regions) if (textContent.trim()) window.announced.push(textContent.trim());
    }};
    for (const root of [document, ...elements.map((element) => element.shadowRoot).filter(Boolean)]) {{
        new MutationObserver(hear).observe(root, {{ subtree: true, childList: true, characterData: true }});
    }}
}}"""


def faults(page: Page) -> list[tuple[str, ...]]:
    """Everything that is wrong with a page as it stands: nothing, for `axe`, the keyboard, and a narrow window.

    The focus goes once around the page, back to where it was first met.
    """
    return [*axe_faults(page), *focus_faults(page), *width_faults(page)]


def axe_faults(page: Page) -> list[tuple[str, ...]]:
    """What axe finds wrong with a page, light or dark, for people who cannot see or click it: rule, element, remedy."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    violations: list[Any] = []
    options = {"runOnly": {"type": "tag", "values": list(STANDARDS)}}
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    for scheme in ("light", "dark") if dark else ("dark", "light"):  # the window's own one last
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(300)  # for transitions, whose colours are between two
        violations += axe.Axe().run(page, options=options).response["violations"]
    return [(rule["id"], node["html"], node["failureSummary"]) for rule in violations for node in rule["nodes"]]


def focus_faults(page: Page) -> list[tuple[str, ...]]:
    """What is wrong with the way of the Tab key around a page: each stop must be seen, in order, and none left out."""
    wrong: list[tuple[str, ...]] = []
    expected: list[str] = page.evaluate(EXPECTED_STOPS)
    order: list[int] = []
    previous: int | None = None
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop is None:  # between the last and the first
            previous = None
            continue
        if stop["number"] == previous:
            continue  # a date field has stops of its own, whose outlines the browser draws inside it
        previous = stop["number"]
        if order and stop["number"] == order[0]:
            break
        if stop["number"] >= 0:  # not one that came with the focus
            order.append(stop["number"])
        if not stop["isOutlined"]:
            wrong.append(("focus without an outline", stop["html"]))
        if not stop["isOnTop"]:
            wrong.append(("focus out of sight", stop["html"]))
    else:
        wrong.append(("focus does not come around", page.url))
    first = order.index(min(order)) if order else 0
    from_first = order[first:] + order[:first]
    if from_first != sorted(order):
        wrong.append(("focus out of order", str(from_first)))
    wrong += [("never focused", html) for number, html in enumerate(expected) if number not in order]
    return wrong


def width_faults(page: Page) -> list[tuple[str, ...]]:
    """What must be scrolled sideways in the window as it is."""
    width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [("wider than its window", f"{width} > {window}")] if width > window else []


def is_as_wide_as_its_window(page: Page) -> bool:
    """On a phone and on a screen: nothing must be scrolled sideways."""
    before, wrong = page.viewport_size, []
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        wrong += width_faults(page)
    assert before is not None
    page.set_viewport_size(before)
    return not wrong


def listen(page: Page) -> None:
    """From now on, note what a screen reader says of its own accord."""
    page.evaluate(LISTEN)


def announced(page: Page) -> list[str]:
    """What a screen reader has said since `listen`: the text of each live region that can be seen, when it changed."""
    texts: list[str] = page.evaluate("window.announced")
    return texts
