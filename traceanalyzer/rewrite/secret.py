"""Hashes names: equal for the same name and key, and meaningless without the key."""

from __future__ import annotations

import hashlib
import secrets

_BYTES = 6
"""Bytes of a hash: two of 10,000 names share one with a chance of 1 in 5 million."""

_KEY_BYTES = 32


class Secret:
    """A secret key, with the hashes that it makes."""

    def __init__(self, key: str | None = None) -> None:
        """Set the key; a random secret one if None."""
        given = secrets.token_bytes(_KEY_BYTES) if key is None else key.encode("utf-8", "surrogatepass")
        # A key of any length becomes one that BLAKE2 takes.
        self._key = hashlib.blake2b(given, digest_size=_KEY_BYTES).digest()

    def hide(self, text: str, kind: str) -> str:
        """Hash a text to a name such as `kind_1a2b3c4d5e6f`."""
        data = text.encode("utf-8", "surrogatepass")
        return f"{kind}_{hashlib.blake2b(data, digest_size=_BYTES, key=self._key).hexdigest()}"
