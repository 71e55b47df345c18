"""The stage of these tests: made once, and the launcher on it for each file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

paperclipapp, staging = sys.modules["paperclipapp"], sys.modules["stage"]


@pytest.fixture(scope="session")
def whole_stage(prepared: Any, say: Callable[[str], None]) -> Iterator[Any]:
    """With the adapters installed, and no launcher yet."""
    try:
        with staging.running(prepared, say) as found:
            installed = [found.api.install_adapter(staging.ADAPTERS / name) for name in ("claude", "opencode")]
            assert installed == [staging.TYPE, staging.OTHER_TYPE]
            yield found
    except paperclipapp.PaperclipError as error:
        pytest.fail(f"no Paperclip server: {error}", pytrace=False)
    finally:
        say("the stage is gone")


@pytest.fixture(scope="module")
def launched(whole_stage: Any) -> Iterator[Any]:
    """The launcher ends with the file: tests that come later count Leases."""
    whole_stage.launcher.start()
    yield whole_stage
    if whole_stage.launcher.running:
        assert whole_stage.launcher.end() == 0


@pytest.fixture
def stage(launched: Any) -> Iterator[Any]:
    """All runs, whatever the test before did to it; nothing of the test stays."""
    if not launched.server.pid:
        launched.server.start()
    if not launched.launcher.running:
        launched.launcher.start()
    yield launched
    launched.site.clear()


@pytest.fixture
def company(stage: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """One for each test. Afterwards its agents rest: the server would wake them for issues that are left."""
    made = stage.api.create_company(request.node.name[:60])
    yield made
    if not stage.server.pid:
        stage.server.start()
    if not stage.launcher.running:
        stage.launcher.start()
    stage.quiet(made)
