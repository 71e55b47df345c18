"""What CI asks for beyond a run at somebody's desk: no skip, and more examples of each property."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("desk", max_examples=100)
settings.register_profile("thorough", max_examples=400, derandomize=True)
settings.load_profile("thorough" if os.environ.get("CI") else "desk")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"in CI nothing may be skipped: {report.longrepr[2]}"
    return report
