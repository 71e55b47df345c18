"""docs/launcher-protocol.md says what there is: each method, each code, each bound."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from paperclip_launcher.serve import failures, lines, listen, peer, reader, runs
from paperclip_launcher.serve.service import PROTOCOL_VERSION, Service

TEXT = (Path(__file__).parents[3] / "docs" / "launcher-protocol.md").read_text()
TABLES = {line.split("|")[1].strip() for line in TEXT.splitlines() if line.startswith("|")}
SOURCE = "".join(path.read_text() for path in Path(runs.__file__).parent.glob("*.py"))


class NoLauncher:
    templates = None


def test_every_method_is_documented_and_nothing_else():
    methods = Service(NoLauncher(), None, asyncio.Event()).methods
    documented = {name.strip("`") for name in TABLES}
    assert set(methods) <= documented
    assert {name for name in documented if "." in name} - set(methods) == {"run.log", "run.note"}


def test_every_code_that_stands_in_the_source_is_documented():
    own = {failures.RUN_NOT_FOUND, failures.DETACHED, reader.REPLACED, reader.TOO_SLOW}
    for code in own | {*re.findall(r'"code": "([a-z_0-9]+)"', SOURCE)}:
        assert f"`{code}`" in TEXT


def test_the_bounds_are_those_of_the_program():
    assert f"{lines.LONGEST >> 20} MiB; a longer one" in TEXT
    assert f"{peer._MOST_AT_ONCE}\nrequests" in TEXT
    assert f"{peer._MOST_UNREAD >> 20} MiB of answers" in TEXT
    assert f"{listen._MOST_CLIENTS} connections" in TEXT
    assert f"At most {reader.WINDOW >> 20} MiB of a run" in TEXT
    assert f"nothing for {reader._PATIENCE:.0f} s" in TEXT
    assert f"lost for more than {runs._RETURN_SECONDS:.0f} s" in TEXT
    assert f"After {runs._CANCEL_SECONDS:.0f} s it is `unknown`" in TEXT
    assert f'"protocolVersion":{PROTOCOL_VERSION}' in TEXT
