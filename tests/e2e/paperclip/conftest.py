"""A real Paperclip server for the tests of this folder, started only where one of them asks for it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

paperclipapp, paperclipserver = sys.modules["paperclipapp"], sys.modules["paperclipserver"]

_TINY = Path(__file__).with_name("tiny")


@pytest.fixture(scope="session")
def paperclip_server(say: Callable[[str], None]) -> Iterator[Any]:
    """One for all tests; those take `paperclip`."""
    try:
        with paperclipserver.running(say) as found:
            yield found
    except paperclipapp.PaperclipError as error:
        pytest.fail(f"no Paperclip server: {error}", pytrace=False)
    finally:
        say("Paperclip stopped")


@pytest.fixture
def paperclip(paperclip_server: Any) -> Any:
    """The server, running, whatever the test before did to it."""
    if not paperclip_server.pid:
        paperclip_server.start()
    return paperclip_server


@pytest.fixture(scope="session")
def tiny(paperclip_server: Any) -> Path:
    """The folder of the adapter `tiny`, installed."""
    folder: Path = paperclip_server.room("adapters/tiny")
    shutil.copytree(_TINY, folder, dirs_exist_ok=True)
    assert paperclip_server.api.install_adapter(folder) == "tiny"
    return folder
