"""A report in a browser, with everything that it says on the console or asks of the network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Route


class Opened:
    """One page of one context, opened as a file."""

    def __init__(self, browser: Browser, text: str, path: Path, options: dict[str, Any]) -> None:
        path.write_text(text, "utf-8")
        self.address = path.as_uri()
        self.said: list[str] = []
        self.requests: list[str] = []
        anchor = options.pop("anchor", "")
        self._context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        self.page = self._context.new_page()
        self.page.set_default_timeout(20_000)
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self._context.route("**/*", self._route)
        self.page.goto(self.address + anchor)

    def close(self) -> None:
        """Ends the context, not the browser."""
        self._context.close()

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
