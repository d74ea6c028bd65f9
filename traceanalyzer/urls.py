"""URLs: which locations are some, and how they are shown.

A URL may hold secrets: a user and a password, or in its query the signature of whoever shared a file. What is printed,
written or called after a URL has its protocol, server and path only.
"""

from __future__ import annotations

import glob
import re
from urllib.parse import quote, unquote

_PROTOCOL = r"[A-Za-z][A-Za-z0-9+.-]+"
_URL = re.compile(rf"\A(?:{_PROTOCOL}::)*{_PROTOCOL}://")
_LINK = re.compile(rf"::(?={_PROTOCOL}(?:::|://|\Z))")
"""Between the links of a chain of fsspec, as in `simplecache::https://...`; addresses of IPv6 have colons, too."""

_WEB = frozenset({"http", "https", "file"})
"""Protocols with queries and fragments; with others, "?" and "#" may belong to a name or a pattern."""
_CONTAINERS = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Protocols with a container before the "@"."""
_IS_WEB = re.compile(r"(?:.*::)?https?://", re.IGNORECASE)
_NO_PORT = re.compile(r"[^\[\]@]*:(?!\d*\Z)[^\]]*")

_WORD = r"[A-Za-z][A-Za-z0-9+.-]{1,15}"
_IN_TEXT = re.compile(rf"(?:{_WORD}::){{0,4}}(?:{_WORD}://|(?:https?|ftp|s3a?|gs|gcs|abfss?|az|adl):/)\S+")
"""A URL in a sentence; with one slash where it went through a path. Its parts have limits, so that no text, however it
is made, takes long to be searched; names of protocols are shorter."""
_AFTER = "])}>'\"`,.;:?!"
"""What ends a URL in a sentence, and is none of it."""


def is_url(location: str) -> bool:
    """Whether a location needs fsspec; `file://` does not."""
    return _URL.match(location) is not None and not location.lower().startswith("file://")


def was_url(path: str) -> bool:
    """Whether a path is a URL, or one of the common ones that has lost a slash as a path."""
    return is_url(path) or (_IN_TEXT.match(path) is not None and not path.lower().startswith("file://"))


def has_wildcard(location: str) -> bool:
    """Whether a location is a pattern: with `*`, `[`, or `?`, which on the web begins a query."""
    if not is_url(location):
        return glob.has_magic(location)
    _, _, path = path_of(location).partition("/")
    return any(c in path for c in ("*[" if _IS_WEB.match(location) else "*?["))


def shown(location: str) -> str:
    """A location as people may see it: a path as it is; a URL without user, password, query and fragment."""
    if _URL.match(location) is None:
        return location
    return "::".join(map(_shown, _LINK.split(location)))


def path_of(url: str) -> str:
    """Server and path of the file that a URL leads to, without the protocol and without secrets."""
    link = next((link for link in _LINK.split(url) if "://" in link), url)
    return _shown(link).partition("://")[2]


def without_secrets(text: str) -> str:
    """A text, such as the error of a library, with each URL in it as it may be shown."""
    return _IN_TEXT.sub(_shown_in_text, text) if ":/" in text else text


def without_secrets_of(url: str, text: str) -> str:
    """A text about a URL without any part of it that is not shown, wherever it stands."""
    for part in sorted(_hidden(url), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "...", text)
    return without_secrets(text)


def _shown(link: str) -> str:
    protocol, mark, rest = link.partition("://")
    if not mark:
        return link
    user, rest = _split_user(rest)
    if protocol.lower() in _CONTAINERS and user and ":" not in user:
        rest = f"{user}@{rest}"
    return f"{protocol}://{rest[: _end_of_path(protocol, rest)]}"


def _end_of_path(protocol: str, rest: str) -> int:
    """Where a query or fragment begins; in names of stores that is only before an argument, with its "="."""
    last = len(rest) if protocol.lower() in _WEB else max(0, rest.rfind("="))
    marks = [at for at in (rest.find("?", 0, last), rest.find("#", 0, last)) if at >= 0]
    return min(marks, default=len(rest))


def _split_user(rest: str) -> tuple[str, str]:
    """User and password, and what follows them; a password with a slash is found if no port can be there."""
    server = re.split(r"[/?#]", rest, maxsplit=1)[0]
    reach = rest if "@" not in server and _NO_PORT.fullmatch(server) else server
    user, mark, _ = reach.rpartition("@")
    return (user, rest[len(user) + 1 :]) if mark else ("", rest)


def _shown_in_text(match: re.Match[str]) -> str:
    found = match[0]
    url = found.rstrip(_AFTER)
    after = found[len(url) :]
    whole = url if "://" in url else url.replace(":/", "://", 1)
    return found if shown(whole) == whole else shown(whole) + after


def _hidden(url: str) -> set[str]:
    """The parts of a URL that are not shown, as they are and as libraries may write them."""
    found: set[str] = set()
    for link in _LINK.split(url):
        user, rest = _split_user(link.partition("://")[2])
        if link not in (_shown(link), ""):
            _, _, query = rest.partition(_shown(link).partition("://")[2])
            found |= {f"{user}@", user, *user.split(":", 1), query}
            found |= {value.partition("=")[2] or value for value in re.split(r"[?&#]", query)}
    return {
        text for part in found if len(part) > 1 for text in (part, unquote(part), quote(part), quote(part, safe=""))
    }
