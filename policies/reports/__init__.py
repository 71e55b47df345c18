"""Reports: findings to text, in the form that people, editors, CI and code scanning read. Pure: nothing is printed."""

from __future__ import annotations

from policies.reports.content import Baseline, Report, compare
from policies.reports.formats import FORMATS, render

__all__ = ["FORMATS", "Baseline", "Report", "compare", "render"]
