"""The templates of a small environment, and what plans runs from them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from charts_py.jobtemplates import config_map, synthesize
from paperclip_launcher.dialects.claude import Claude
from paperclip_launcher.manifest import plan
from paperclip_launcher.options import RunOptions
from paperclip_launcher.request import RunRequest
from paperclip_launcher.templates import Templates
from tests.launcher.request.sample import FACTS, REQUEST, SETTINGS


@pytest.fixture(scope="session")
def delivered() -> dict[str, str]:
    """The data of the ConfigMap."""
    made = config_map(synthesize(SETTINGS), FACTS, "paperclip-job-templates", "paperclip-system", {})
    data: dict[str, str] = made["data"]
    return data


@pytest.fixture(scope="session")
def templates(delivered) -> Templates:
    return Templates.of({name.removesuffix(".json"): json.loads(text) for name, text in delivered.items()})


@pytest.fixture
def tree() -> dict[str, Any]:
    """A request that a test may change."""
    return copy.deepcopy(REQUEST)


@pytest.fixture
def planned(templates):
    """Plans a run from a request, a config, and what else is asked for."""

    def make(tree=REQUEST, config=None, dialect=None, context=None, **more):
        merged = {
            **tree,
            "config": {**tree["config"], **(config or {})},
            "context": {**tree["context"], **(context or {})},
        }
        request, kind = RunRequest.of(merged), dialect or Claude()
        options = RunOptions.of(request.config, kind)
        return plan(request, options, kind, more.pop("templates", templates), owner="me", nonce="x7k2m", **more)

    return make
