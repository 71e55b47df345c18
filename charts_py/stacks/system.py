"""paperclip-system: the server and all it needs."""

from __future__ import annotations

from charts_py.constructs.balancer import AddressPool
from charts_py.constructs.claims import ServerClaims
from charts_py.constructs.component import Concept
from charts_py.constructs.configmaps import ServerConfig
from charts_py.constructs.database import DatabaseCluster
from charts_py.constructs.externalsecrets import ServerSecrets
from charts_py.constructs.jobtemplates import JobTemplates
from charts_py.constructs.namespaces import SystemNamespace
from charts_py.constructs.network import SystemNetwork
from charts_py.constructs.server import Server
from charts_py.constructs.services import ServerServices

CONCEPTS: tuple[type[Concept], ...] = (
    SystemNamespace,
    ServerSecrets,
    ServerConfig,
    ServerClaims,
    SystemNetwork,
    AddressPool,
    DatabaseCluster,
    ServerServices,
    Server,
    JobTemplates,
)
