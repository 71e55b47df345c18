"""Takes secrets out of what leaves the process: values that are known, in every form they take, and well-known tokens.

    mask = Mask([token, password])
    mask.text("Authorization: Bearer " + token)     'Authorization: Bearer ***'

A known value is found raw, in base64 (any alignment), URL-encoded, escaped for JSON (up to three times), for Python's
repr, for a shell and for YAML; so is each longer line of it. Values below six bytes are left alone: they stand in
everything.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

STARS = "***"
SHORTEST = 6
"""Bytes of a value that is masked, and of the head by which needles are found."""
_SHORTEST_LINE = 12
"""Bytes of a line of a longer value: shorter ones, such as a lone brace, are no secret of their own."""
_STARS = STARS.encode()

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PERCENT = re.compile("%[0-9A-F]{2}")
_HELD = 16 << 10
"""Bytes that a stream holds back at most for a token whose end has not come."""

# Bytes that are rare in logs, yet nearly every secret has some. Without all others a log is a tenth as long, and a text
# may stand in it only if what is left of the text stands in what is left of the log.
_RARE = b"ABCDFGHJKLMNPQRSUVWXYZ-_/kjpy\n"
_COMMON = bytes(set(range(256)) - set(_RARE))


def _sifted(data: bytes) -> bytes:
    return data.translate(None, _COMMON)


# Not in the middle of a word; yet "\n" of a JSON text may stand right before.
_START = rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
# Each by a literal that all such tokens hold, by a pattern for how they begin, and by one for the whole of them, which
# is tried only where the other is found: its group 1 is the secret. How they begin is looked for at 2 GB/s as long as
# that pattern begins with a plain literal itself, at a tenth of it otherwise.
_TOKENS = tuple(
    (_sifted(literal), re.compile(begin), re.compile(pattern, re.DOTALL))
    for literal, begin, pattern in (
        (b"earer", rb"earer", rb"earer(?:\s|%20|\+)+((?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{12,})"),
        (b"sk-", rb"sk-(?:ant|proj)-", _START + rb"(sk-(?:ant|proj)-[A-Za-z0-9_-]{12,})"),
        (b"_", rb"gh[pos]_", _START + rb"(gh[pos]_[A-Za-z0-9]{16,})"),
        (b"github_pat_", rb"github_pat_", _START + rb"(github_pat_[A-Za-z0-9_]{16,})"),
        (b"glpat-", rb"glpat-", _START + rb"(glpat-[A-Za-z0-9_-]{16,})"),
        (b"eyJ", rb"eyJ", _START + rb"(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"),
        (b"://", rb"://", rb"://[^\s/:@\"'<>\\]*:([^\s/@\"'<>\\]{3,})@"),
        (b"PRIVATE KEY-----", rb"PRIVATE KEY-----", rb"PRIVATE KEY-----(.{16,16384}?)(?:-----END|\Z)"),
    )
)
_CUT = re.compile("… \\[[0-9]+ (?:bytes|characters) cut\\]".encode())
_CUT_HINT = "…".encode()[-1:]
"""One byte, since such are looked for at 50 GB/s."""
# Backwards: the last word, or what comes after Bearer. A search forwards for an end would take quadratic time.
_LAST_WORD = re.compile(rb"[A-Za-z0-9._~+/=-]*\s+rerae[bB]|[^\s\"'<>(),;]*")


def _escapes(text: str) -> Iterator[str]:
    """What writers make of a text: JSON as Python, JavaScript and Go write it, nested JSON, repr, shell, YAML, URL."""
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield once.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        yield (twice := json.dumps(once, ensure_ascii=ascii_only)[1:-1])
        yield json.dumps(twice, ensure_ascii=ascii_only)[1:-1]
    yield repr(text)[1:-1]
    yield repr(text.encode())[2:-1]
    yield text.replace("'", "'\\''")
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "''")
    for url in (quote(text, safe=""), quote(text), quote(text, safe="!~*'()"), quote_plus(text)):
        yield url
        yield _PERCENT.sub(lambda match: match[0].lower(), url)


def _base64(value: bytes) -> Iterator[bytes]:
    """The characters that `value` alone decides, where 0, 1 or 2 bytes of another stand before it in their group."""
    for before, skip in ((0, 0), (1, 2), (2, 3)):
        coded = base64.b64encode(b"\0" * before + value)[skip : (before + len(value)) * 8 // 6]
        yield coded
        yield coded.translate(_URL_SAFE)
        yield quote(coded, safe="").encode()


@lru_cache(maxsize=1024)
def _forms(value: bytes) -> tuple[bytes, ...]:
    """All that is looked for on behalf of one value; () for one that is too short."""
    lines = [line.strip() for line in value.splitlines()]
    found: set[bytes] = set()
    for part in {value, value.strip(), *(line for line in lines if len(line) >= _SHORTEST_LINE)}:
        if len(part) < SHORTEST:
            continue
        found.add(part)
        found.update(_base64(part))
        try:
            text = part.decode()
        except UnicodeDecodeError:
            continue
        found.update(form.encode() for form in _escapes(text))
    return tuple(sorted(found))


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


class Mask:
    """A set of secret values, none of which shows in its repr. `add` and `forget` count, so that runs may share one."""

    def __init__(self, values: Iterable[str | bytes] = ()) -> None:
        self._needles: Counter[bytes] = Counter()
        # The tokens of all runs may begin alike: so no tuples, which would be copied for each.
        self._by_head: dict[bytes, dict[bytes, None]] = {}
        self._by_sifted: dict[bytes, dict[bytes, None]] = {}
        self._longest = 0
        self.add(*values)

    def __repr__(self) -> str:
        return f"Mask({len(self._needles)} forms)"

    def add(self, *values: str | bytes) -> None:
        for value in values:
            for needle in _forms(_bytes(value)):
                self._needles[needle] += 1
                if self._needles[needle] == 1:
                    self._by_head.setdefault(needle[:SHORTEST], {})[needle] = None
                    self._by_sifted.setdefault(_sifted(needle), {})[needle] = None
                    self._longest = max(self._longest, len(needle))

    def forget(self, *values: str | bytes) -> None:
        """Takes back one `add` of each value."""
        for value in values:
            for needle in _forms(_bytes(value)):
                self._needles[needle] -= 1
                if self._needles[needle] > 0:
                    continue
                del self._needles[needle]
                for index, key in ((self._by_head, needle[:SHORTEST]), (self._by_sifted, _sifted(needle))):
                    del index[key][needle]
                    if not index[key]:
                        del index[key]

    def data(self, data: bytes) -> bytes:
        """`data` itself where nothing is found."""
        spans = self._spans(data)
        return _cover(data, spans) if spans else data

    def whole(self, data: bytes) -> bytes:
        """As `data` where nothing follows: what was cut may end with the first part of a value, which goes too. So may
        what stands before the words "… [7 bytes cut]".
        """
        spans = self._spans(data)
        ends = [len(data), *(found.start() for found in _CUT.finditer(data))] if _CUT_HINT in data else [len(data)]
        for end in ends:
            begin = self._open_end(data[:end], SHORTEST)
            if begin < end:
                spans.append((begin, end))
        return _cover(data, spans) if spans else data

    def text(self, text: str) -> str:
        """As `whole`."""
        data = text.encode("utf-8", "surrogatepass")
        masked = self.whole(data)
        return text if masked is data else masked.decode("utf-8", "surrogatepass")

    def tree(self, tree: Any) -> Any:
        """A copy of plain JSON values with every text masked, keys too."""
        if isinstance(tree, str):
            return self.text(tree)
        if isinstance(tree, dict):
            return {self.tree(key): self.tree(value) for key, value in tree.items()}
        if isinstance(tree, (list, tuple)):
            return [self.tree(value) for value in tree]
        return tree

    def stream(self) -> MaskStream:
        return MaskStream(self)

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        left = _sifted(data)
        return [*self._known(data, left), *_tokens(data, left)]

    def _known(self, data: bytes, left: bytes) -> Iterator[tuple[int, int]]:
        # Two ways, measured: finding costs 60 ns a needle and 0.35 ns a byte of what is left, windows 90 ns a byte.
        if len(self._needles) * (60 + 0.35 * len(left)) < 90 * len(data):
            for sifted, needles in self._by_sifted.items():
                if sifted not in left:
                    continue
                for needle in needles:
                    at = data.find(needle)
                    while at >= 0:
                        yield at, at + len(needle)
                        at = data.find(needle, at + 1)
            return
        heads = self._by_head
        for at in range(len(data) - SHORTEST + 1):
            for needle in heads.get(data[at : at + SHORTEST], ()):
                if data.startswith(needle, at):
                    yield at, at + len(needle)

    def _open_end(self, data: bytes, shortest: int) -> int:
        """Where the rest of `data`, of `shortest` bytes or more, is the beginning of a needle; else its length."""
        for at in range(max(0, len(data) - self._longest + 1), len(data) - SHORTEST + 1):
            needles = self._by_head.get(data[at : at + SHORTEST])
            if needles and any(needle.startswith(data[at:]) for needle in needles):
                return at
        for length in range(min(SHORTEST - 1, len(data)), shortest - 1, -1):
            if any(head.startswith(data[-length:]) for head in self._by_head):
                return len(data) - length
        return len(data)

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """What is certain, masked, and the rest that more bytes may make a secret of."""
        cut = min(_open_token(data), self._open_end(data, 1))
        spans = _merge(self._spans(data))
        # A secret that reaches over the cut stays whole; one at the very end may yet be a part of a longer one.
        cut = min([cut, *(start for start, end in spans if start < cut < end)])
        if len(data) - cut > max(_HELD, self._longest):
            cut = len(data)
        return _cover(data[:cut], [(start, end) for start, end in spans if end <= cut]), data[cut:]


class MaskStream:
    """The same over pieces that are cut anywhere.

    Only what may still become a secret is held back: 16 KiB at most, or what the longest known value needs.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        out, self._held = self._mask.split(self._held + piece)
        return out

    def end(self) -> bytes:
        """What was held back, masked."""
        data, self._held = self._held, b""
        return self._mask.whole(data)


def _open_token(data: bytes) -> int:
    """Where a token may have begun whose end has not come; the length of `data` where none has."""
    window = data[-_HELD:]
    key = window.rfind(b"-----BEGIN ")
    if key >= 0 and b"-----END" not in window[key:]:
        return len(data) - len(window) + key
    word = _LAST_WORD.match(window[::-1])
    return len(data) - (word.end() if word else 0)


def _tokens(data: bytes, left: bytes) -> Iterator[tuple[int, int]]:
    for sifted, begin, pattern in _TOKENS:
        found = begin.search(data) if sifted in left else None
        while found:
            match = pattern.match(data, found.start())
            if match:
                yield match.span(1)
            found = begin.search(data, match.end(1) if match else found.start() + 1)


def _merge(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cover(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """`data` with stars for each span; spans that overlap become one."""
    pieces, at = [], 0
    for start, end in _merge(spans):
        pieces += [data[at:start], _STARS]
        at = end
    return b"".join([*pieces, data[at:]])
