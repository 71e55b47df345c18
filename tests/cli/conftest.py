"""A project of its own for each test: the shipped files in a folder that is the working directory."""

from __future__ import annotations

import datetime
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """environments/, templates/, dist/, waivers and locks as shipped; a cache of its own."""
    for name in ("environments", "templates", "dist"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("images.lock", "crd-schemas.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    # Alive on every day on which this runs.
    soon = datetime.datetime.now(tz=datetime.UTC).date() + datetime.timedelta(days=30)
    waivers = (ROOT / "waivers.yaml").read_text()
    (tmp_path / "waivers.yaml").write_text(re.sub(r'expires: "[^"]+"', f'expires: "{soon}"', waivers))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PAPERCLIP_CRD_SCHEMAS", raising=False)
    return tmp_path


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A folder with nothing in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PAPERCLIP_CRD_SCHEMAS", raising=False)
    return tmp_path
