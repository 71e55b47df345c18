"""How findings are shown to people: by object, in colour where a person looks, the waived ones too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from policies.reports import Report
from policies.reports.text import lines

if TYPE_CHECKING:
    from charts_py.cli.output import Output
    from policies.model import Finding


def show(report: Report | Sequence[Finding], output: Output, *, to_stdout: bool = False) -> None:
    """Open findings in full, waived ones as one line each reason; on stderr unless they are the product."""
    whole = report if isinstance(report, Report) else Report(tuple(report))
    for line, style in lines(whole):
        if to_stdout:
            output.product(line, style)
        else:
            output.note(line, style)
