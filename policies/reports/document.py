"""For programs: JSON, as schemas/report.schema.json says. A later check compares itself with it (--baseline)."""

from __future__ import annotations

import json
from typing import Any

from policies.model import Finding
from policies.reports.content import Report

API_VERSION = "paperclip-gitops/v1"
KIND = "Report"


def render(report: Report) -> str:
    return json.dumps(as_data(report), indent=2, ensure_ascii=False) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "findings": [finding(one) for one in report.findings],
        "summary": dict(report.summary),
        "objects": report.objects,
        "kubeconform": report.kubeconform,
        "failed": report.failed,
    }
    if report.baseline is not None:
        for index, one in enumerate(document["findings"]):
            one["known"] = report.is_known(index)
        document["baseline"] = {
            "file": report.baseline.file,
            "new": report.new,
            "known": len(report.baseline.known),
            "fixed": [{key: one[key] for key in _OF_FIXED if key in one} for one in report.baseline.fixed],
        }
    return document


_OF_FIXED = ("policy", "severity", "object", "pointer", "message", "fingerprint")


def finding(one: Finding) -> dict[str, Any]:
    identity, source = one.object, one.source
    return {
        "policy": one.policy,
        "severity": str(one.severity),
        "object": None
        if identity is None
        else {
            "apiVersion": identity.api_version,
            "kind": identity.kind,
            "namespace": identity.namespace,
            "name": identity.name,
        },
        "pointer": one.pointer,
        "container": one.container,
        "message": one.message,
        "remedy": one.remedy,
        "source": None if source is None else {"file": source.file, "line": source.line, "construct": source.construct},
        "fingerprint": one.fingerprint,
        "waived": one.waived,
    }
