"""The launcher's mask, made quick for many histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

from paperclip_launcher.masking import Mask

_REMEMBERED = 10_000
"""Texts."""


class Remembering(Mask):
    """Masks a text once for all histories: the same few come again and again, and so do the secrets."""

    def __init__(self, values: Iterable[str | bytes] = ()) -> None:
        self._values: Counter[str | bytes] = Counter()
        super().__init__()
        self.add(*values)

    def add(self, *values: str | bytes) -> None:
        super().add(*values)
        self._values.update(values)
        self._texts = _masked(frozenset(+self._values))

    def forget(self, *values: str | bytes) -> None:
        super().forget(*values)
        self._values.subtract(values)
        self._texts = _masked(frozenset(+self._values))

    def text(self, text: str) -> str:
        known = self._texts.get(text)
        if known is None:
            if len(self._texts) > _REMEMBERED:
                self._texts.clear()
            known = self._texts[text] = super().text(text)
        return known


@cache
def _masked(_secrets: frozenset[str | bytes]) -> dict[str, str]:
    """What is known of texts while these are the secrets."""
    return {}
