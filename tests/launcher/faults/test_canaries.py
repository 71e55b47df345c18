"""Secrets are looked for in what one launcher says; `make faults` does it for every verb."""

from __future__ import annotations

from tests.faults.cage import PLACES
from tests.faults.canaries import search_all


def test_no_secret_shows_anywhere():
    cage, _ = search_all(1, full=False)
    assert cage.hits == {}
    assert len(PLACES) > 20
    assert {"stderr of run", "journal/run", "result", "metrics", "notes"} < cage.outputs
