"""A report in a browser, with everything that it says on the console or asks of the network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

WINDOW = {"width": 1440, "height": 900}


class Opened:
    """A file in a tab, from when it is opened until it is closed."""

    def __init__(self, tab: Page, text: str, path: Path, anchor: str = "") -> None:
        path.write_text(text, "utf-8")
        self.address = path.as_uri()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page = tab
        self._listeners: dict[Any, Any] = {
            "console": lambda message: self.said.append(f"{message.type}: {message.text}"),
            "pageerror": lambda error: self.said.append(str(error)),
            "dialog": lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        }
        for event, listener in self._listeners.items():
            tab.on(event, listener)
        tab.context.route("**/*", self._route)
        tab.goto(self.address + anchor)

    def close(self) -> None:
        """Leaves the tab empty, as it was."""
        self.page.goto("about:blank")
        self.page.context.unroute("**/*", self._route)
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)

    def find(self, selector: str) -> Locator:
        """Elements of the page."""
        return self.page.locator(selector)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        return self.page.evaluate(script)

    def wait_until(self, condition: str) -> None:
        """Frame by frame, until an expression is true. (Playwright's own way needs `eval`, which the page forbids.)"""
        frames = "for (let left = 1200; left && !(%s); left--) await new Promise(requestAnimationFrame)"
        assert self.ask(f"(async () => {{ {frames % condition}; return Boolean({condition}); }})()"), condition

    def unfold(self) -> None:
        """Everything that is folded, open."""
        self.ask("document.querySelectorAll('details').forEach((part) => { part.open = true; })")

    def violations(self, axe: str, *rules: str) -> list[str]:
        """What axe-core finds, by all its rules or by some."""
        if not self.ask("'axe' in window"):
            self.page.evaluate(axe)
        only = {"runOnly": list(rules)} if rules else {}
        found = self.page.evaluate(
            "async (options) => (await axe.run(document, options)).violations"
            ".map((one) => `${one.id}: ${one.nodes[0].html} ${one.nodes[0].failureSummary}`)",
            {**only, "resultTypes": ["violations"], "preload": False},
        )
        return list(found)

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(self.ask("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def _route(self, route: Route) -> None:
        if route.request.url.partition("#")[0] == self.address:
            route.continue_()
        else:
            self.requests.append(route.request.url)
            route.abort()
