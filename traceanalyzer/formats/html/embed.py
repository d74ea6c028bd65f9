"""Embeds data for the page's script as JSON that cannot end its element, for any names in it."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from markupsafe import Markup

_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def as_json(value: Any) -> Markup:
    """Encode a value for a `<script type="application/json">`, without `</script>`, `<!--` and line separators."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_ESCAPES))  # noqa: S704 - nothing is left that HTML could act upon


def policy(style: str, script: str) -> str:
    """A Content-Security-Policy that allows only this style, this script, and images in the page."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def verbatim(source: str) -> Markup:
    """Mark a style or script of this package as safe, unchanged."""
    return Markup(source)  # noqa: S704 - a file of this package, no value in it
