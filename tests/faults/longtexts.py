"""Texts that are too long, with a secret at each place where one might be cut: no part of it may be left."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from paperclip_launcher.cluster.errors import api_error
from paperclip_launcher.cluster.transport import Response
from paperclip_launcher.diagnosed import Ending
from paperclip_launcher.dialects import DIALECTS
from paperclip_launcher.masking import Mask
from paperclip_launcher.outcome import EndFacts, outcome
from tests.faults.cage import Cage
from tests.faults.place import event

LIMITS = (256, 500, 1024, 2000, 4096, 8192, 16384)
"""Where texts are cut: bytes or characters."""


def cut_everywhere(cage: Cage, step: int, limits: Sequence[int] = LIMITS) -> int:
    """Searches what parsers, results and errors keep of them, at every `step`th byte. How many texts there were."""
    value = cage.values["env"]
    mask, count = Mask([value]), 0
    for limit in limits:
        for before in range(limit - 48, limit + 8, step):
            text = "x" * before + value
            for dialect, said, rest in itertools.product(DIALECTS.values(), _said(text), (0, limit)):
                parser = dialect.parser()
                parser.feed(said + b"\n" + b"y\n" * (rest // 2))
                cage.search_tree(f"{dialect.name}: parser with a long text", mask.tree(parser.snapshot()))
                end = Ending(exit_code=1, started=True, message=mask.text(text))
                tail = mask.text(said.decode() + "y" * rest)
                found = outcome(EndFacts(dialect, "run-1", "job-1", parser.parsed(), end, tail=tail))
                cage.search_tree(f"{dialect.name}: result with a long text", mask.tree(found.to_json()))
                count += 1
            status = {"kind": "Status", "message": f"{text} and so on", "reason": "Forbidden"}
            error = api_error(Response(403, {}, json.dumps(status).encode()))
            cage.search("long errors of the API", mask.text(f"list pods: {error}; trying again"))
    return count


def _said(text: str) -> tuple[bytes, ...]:
    """As a line of its own, and as what the agent says or fails with."""
    content = [{"type": "text", "text": text}]
    return (
        f"{text} and so on".encode(),
        event("assistant", session_id="s", message={"id": "1", "content": content}),
        event("result", subtype="error", is_error=True, result=f"{text} and so on", errors=[text], session_id="s"),
        event("error", error={"data": {"message": f"{text} and so on"}}),
    )
