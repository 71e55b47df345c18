"""paperclip-policies: what the API server itself refuses."""

from __future__ import annotations

from charts_py.constructs.admission import AdmissionPolicies
from charts_py.constructs.component import Concept

CONCEPTS: tuple[type[Concept], ...] = (AdmissionPolicies,)
