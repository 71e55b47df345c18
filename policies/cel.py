"""What a policy says to the API server: expressions of a ValidatingAdmissionPolicy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policies.model import Severity

COMMON: Mapping[str, str] = {
    "podSpec": (
        "object.kind == 'Pod' ? object.spec : object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template.spec"
        " : object.spec.template.spec"
    ),
    "podMeta": (
        "object.kind == 'Pod' ? object.metadata : object.kind == 'CronJob'"
        " ? object.spec.jobTemplate.spec.template.?metadata.orValue({})"
        " : object.spec.template.?metadata.orValue({})"
    ),
    "mainContainers": "variables.podSpec.containers",
    "containers": (
        "variables.podSpec.containers + variables.podSpec.?initContainers.orValue([])"
        " + variables.podSpec.?ephemeralContainers.orValue([])"
    ),
    "volumes": "variables.podSpec.?volumes.orValue([])",
    "podLabels": "variables.podMeta.?labels.orValue({})",
    "labels": "object.metadata.?labels.orValue({})",
    "annotations": "object.metadata.?annotations.orValue({})",
}
"""Variables that every expression may use; only those it reaches are written into its policy."""


@dataclass(frozen=True)
class Cel:
    """A policy in CEL. `expression` is true for an object that may pass; it sees `object`, `oldObject`, `variables`.

    `kinds` narrows those of the policy; empty: the same. `variables` come on top of COMMON and may use it and each
    other, in order. `message` is what a refused user reads; empty: the policy's title and remedy. `partly` says what
    Python finds and CEL cannot. `operations` are those of the admission rule. `severity` is the mildest that Python
    gives what the expression refuses, where that is milder than the policy: it decides whether a request is denied.
    """

    expression: str
    kinds: frozenset[str] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    partly: str = ""
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    severity: Severity | None = None
