"""paperclip-tenants: the namespaces in which upstream's plugin runs the agents of single companies."""

from __future__ import annotations

from charts_py.constructs.component import Concept
from charts_py.constructs.tenants import Tenants

CONCEPTS: tuple[type[Concept], ...] = (Tenants,)
