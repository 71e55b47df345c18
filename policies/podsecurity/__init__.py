"""Pod security: the Pod Security Standards as the API server applies them, and what goes beyond them."""

from policies.podsecurity import hardening, namespaces, standards
from policies.podsecurity.levels import Judged, faults, hardened, judged, level_of, version_of
from policies.podsecurity.standard import CHECKS, Violation, violations
from policies.podsecurity.subject import Level

__all__ = [
    "CHECKS",
    "Judged",
    "Level",
    "Violation",
    "faults",
    "hardened",
    "hardening",
    "judged",
    "level_of",
    "namespaces",
    "standards",
    "version_of",
    "violations",
]
