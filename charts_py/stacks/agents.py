"""paperclip-agents: where agents run, and what they may do and take."""

from __future__ import annotations

from charts_py.constructs.access import AgentAccess
from charts_py.constructs.claims import AgentWorkspace
from charts_py.constructs.component import Concept
from charts_py.constructs.externalsecrets import AgentSecrets
from charts_py.constructs.namespaces import AgentsNamespace
from charts_py.constructs.network import AgentsNetwork
from charts_py.constructs.quotas import AgentQuotas

CONCEPTS: tuple[type[Concept], ...] = (
    AgentsNamespace,
    AgentAccess,
    AgentSecrets,
    AgentWorkspace,
    AgentQuotas,
    AgentsNetwork,
)
