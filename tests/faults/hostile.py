"""What a hostile or broken peer may send to a launcher: answers of no sense, logs of no manners, names and prompts."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import re
from array import array
from collections.abc import Iterator
from dataclasses import replace

from kubekit.names import job_name
from paperclip_launcher.cluster.access import Access, Tokens
from paperclip_launcher.cluster.errors import ApiError
from paperclip_launcher.cluster.network import NetworkTransport
from paperclip_launcher.cluster.retry import RetrySettings
from paperclip_launcher.cluster.transport import Request, TransportError
from paperclip_launcher.cluster.wire import Address
from paperclip_launcher.errors import Unreachable
from tests.fakeapi.sockets import Rule
from tests.faults.place import Place, Reader, agent, quick, request, soon, templates, to_end
from tests.faults.table import Figure, exactly

_NAME = re.compile(r"run-[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ALPHABET = "abAB01-_./ éÉ\u0301ß\0🧵"
_SIZES = (
    0,
    1,
    *(size << 10 for size in (95, 96, 97, 127, 128, 129, 255, 256, 257)),
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    5 << 20,
)
_TEXTS = (
    "emoji 🧵🪡",
    "\u202eright to left",
    "a\r\nb\rc",
    r"\c \0 \n",
    "$(HOME) $$(X) ${Y} `id`",
    "{{7*7}}",
    "---\na: !!int 1",
    "a\u2028b",
)


def _alike(rng: random.Random, number: int) -> Iterator[tuple[str, str]]:
    """Pairs of ids that differ only in case, in normal form, in what a name must drop, or after 63 characters."""
    one = f"{number}:a" + "".join(rng.choices(_ALPHABET, k=rng.randrange(1, 8))) + "x" * rng.choice((0, 60))
    other = "".join(rng.choices(_ALPHABET, k=5))
    texts = (one, one.upper(), f"{one}-", f"{one}_", f" {one}", f"{one}é", f"{one}e\u0301", f"{one}\0")
    yield from (((text, other) for text in texts) if number % 2 else ((other, text) for text in texts))
    yield f"{one}y", f"y{other}"
    yield one, f"yy{other}"


def names(seed: int, count: int) -> tuple[int, int]:
    """How many names of Jobs were no names or made twice, and how many different ones there are.

    Hashes stand for what was seen, in parts that are compared one after the other: ten million fit into 200 MiB.
    """
    rng = random.Random(seed)
    bad, parts = 0, [array("q") for _ in range(256)]
    for pair in itertools.islice((pair for number in itertools.count() for pair in _alike(rng, number)), count):
        name = job_name(*pair)
        bad += len(name) > 63 or not _NAME.fullmatch(name)
        hashed = hash(name)
        parts[hashed & 255].extend((hashed, hash(pair)))
    distinct = 0
    for part in parts:
        seen: dict[int, int] = {}
        bad += sum(seen.setdefault(name, pair) != pair for name, pair in zip(part[::2], part[1::2], strict=True))
        distinct += len(seen)
    return bad, distinct


async def _prompts(texts: list[str]) -> list[str]:
    """Which of them did not come to the container as they are."""
    wrong = []
    async with Place(agent(), knobs=soon()) as place, place.launcher() as launcher:
        for number, text in enumerate(texts):
            asked = request(f"run-{number}", f"agent-{number}", promptTemplate="{{context.prompt}}")
            asked = replace(asked, context={**asked.context, "prompt": text})
            result = await to_end(launcher, asked, Reader())
            if result.code or _delivered(place, job_name(f"agent-{number}", f"run-{number}")) != text.encode():
                wrong.append(f"{len(text)} {text[:10]!r}: {result.code}")
    return wrong


def _delivered(place: Place, job: str) -> bytes:
    """The parts of the prompt in all Secrets of the Job, in the order in which its container reads them."""
    parts: dict[str, bytes] = {}
    for change in place.cluster.store.changes:
        resource, _, _ = change.item.key
        owners = change.item.obj["metadata"].get("ownerReferences") or ()
        if resource != "secrets" or change.kind != "ADDED" or not any(owner["name"] == job for owner in owners):
            continue
        tree = change.item.obj
        texts = {key: base64.b64decode(value) for key, value in (tree.get("data") or {}).items()}
        texts |= {key: value.encode() for key, value in (tree.get("stringData") or {}).items()}
        parts |= {key: value for key, value in texts.items() if key.startswith("part-")}
    return b"".join(parts[key] for key in sorted(parts))


def prompts(*, full: bool) -> list[str]:
    rng = random.Random(1)
    letters = "abc \n\\'\"$`{}ü🧵"
    sizes = _SIZES if full else _SIZES[:4]
    texts = ["".join(rng.choices(letters, k=size)) if size < 1000 else _long(rng, size) for size in sizes]
    return quick(_prompts([text for text in (*texts, *_TEXTS) if text]), 5.0)


def _long(rng: random.Random, size: int) -> str:
    text = "".join(rng.choices("abcdefgh \\'\"$`{}", k=4096)) * (size // 4096 + 1)
    return text[:size]


_DEEP = "[" * 5000
_BODIES = (
    "",
    "<html>" + "x" * (1 << 20),
    _DEEP,
    '{"a":' * 5000,
    "null",
    "7",
    '"text"',
    '{"kind":"Status","message":7,"reason":[],"details":"x","code":"y"}',
    json.dumps({"kind": "Status", "message": "m" * 100_000, "reason": "r" * 10_000}),
    json.dumps({"kind": "Secret", "message": "not a Status", "data": {"a": "b"}}),
    json.dumps({"kind": "Status", "message": "a\x1b[31m\r\nb\x00\u2028c", "details": {"retryAfterSeconds": -5}}),
    json.dumps({"kind": "Status", "message": "x", "details": {"retryAfterSeconds": 1e308}}),
    '{"kind":"Status","message":"\\ud800"}',
    '{"items":7}',
    '{"items":[7,null,"x",{}]}',
    '{"metadata":7}',
)


async def _answers() -> tuple[int, list[str]]:
    """How many answers of no sense there were, and which of them were met by anything but a proper error."""
    wrong, count = [], 0
    async with Place() as place:
        talker = place.talker(retry=RetrySettings(budget=0.0))
        for status in (200, 201, 301, 400, 403, 404, 409, 422, 429, 500, 503, 599):
            for number, body in enumerate(_BODIES):
                count += 1
                place.server.rules = [Rule("status", status=status, body=body or " ")]
                try:
                    await talker.get("jobs", "x")
                except (ApiError, Unreachable) as error:
                    text = str(error)
                    if len(text) > 400 or re.search(r"[\x00-\x08\x0b-\x1f]", text) or "not a Status" in text:
                        wrong.append(f"{status} body {number}: {text[:80]!r}")
                except Exception as error:  # noqa: BLE001  any other is what is looked for
                    wrong.append(f"{status} body {number}: {type(error).__name__}: {str(error)[:80]}")
    return count, wrong


def answers() -> tuple[int, list[str]]:
    return quick(_answers(), 100.0)


async def _senseless_watches(resource: str) -> tuple[str, int]:
    """Lists and watches answer nonsense for a while; the run goes on, and ends well."""
    async with Place(agent(b"x", b"y", every=20.0), knobs=soon()) as place, place.launcher() as launcher:
        run = await launcher.begin(request(), Reader())
        for number, body in enumerate(
            (*_BODIES, '{"type":"ADDED","object":{}}\n', '{"type":7}\n', '{"type":"BOOKMARK"}\n')
        ):
            verb = "watch" if number % 3 else "list"
            place.server.rules.append(Rule("status", verb, resource, status=200, body=body or " "))
        for _ in range(8):
            place.server.drop_all()
            await asyncio.sleep(5.0)
        rest = len(place.server.rules)
        place.server.rules.clear()
        result = await run.result
        run.acknowledge()
        return result.code, rest


def senseless_watches(resource: str, speed: float = 20.0) -> str:
    return quick(_senseless_watches(resource), speed)[0]


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_ANSWER = _HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\n\r\n"
_PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\nx: y\r\n\r\nhelloyou"
_WORDS = (
    b"\r\n",
    b"\n",
    b"\0",
    b"-1",
    b"ffffffffffffffff",
    b"chunked",
    b"content-length: 3\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"\xff",
    b" ",
    b":",
)


def _mutated(rng: random.Random) -> bytes:
    data = bytearray(rng.choice((_ANSWER, _PLAIN)))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.4:
            data[at:at] = rng.choice(_WORDS)
        elif kind < 0.7:
            del data[at : at + rng.randrange(1, 9)]
        else:
            data[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(data) if rng.random() > 0.02 else bytes(data[:-1]) + b"a" * (1 << 18)


async def _mutations(seed: int, count: int) -> tuple[int, list[str]]:
    rng, wrong = random.Random(seed), []
    current = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(current)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = Address("127.0.0.1", port, None, "127.0.0.1")
    access = Access(address, "", Tokens("", None), templates().namespace, "a fake")
    odd = 0
    for number in range(count):
        current = _mutated(rng)
        transport = NetworkTransport(access)
        try:
            async with asyncio.timeout(100.0):
                await transport.send(Request("GET", "/x", timeout=20.0))
        except TransportError:
            odd += 1
        except Exception as error:  # noqa: BLE001  any other is what is looked for
            wrong.append(f"{number}: {type(error).__name__}: {error}: {current[:80]!r}")
        finally:
            await transport.close()
    server.close()
    return odd, wrong


def mutations(seed: int, count: int) -> tuple[int, list[str]]:
    """Answers of HTTP in which bytes were changed: how many were refused, and which were met by no proper error."""
    return quick(_mutations(seed, count), 20.0)


def figures(seed: int, *, full: bool = True) -> Iterator[Figure]:
    name = "hostile"
    count = 10_000_000 if full else 20_000
    yield exactly(name, "names of Jobs: no names, or made twice; of how many", names(seed, count), (0, count))
    yield exactly(name, "prompts that did not arrive as they are", prompts(full=full), [])
    answered, wrong = answers()
    yield exactly(name, f"{answered} senseless answers of the API: met badly", wrong, [])
    for resource in ("jobs", "pods", "leases"):
        yield exactly(
            name, f"senseless lists and watches of {resource}: error code of the run", senseless_watches(resource), ""
        )
    odd, wrong = mutations(seed, 5000 if full else 300)
    yield exactly(name, f"changed bytes of HTTP, {odd} refused: met badly", wrong, [])
