"""Under which names and addresses the server answers. Everybody who needs one asks here."""

from __future__ import annotations

from urllib.parse import urlsplit

from charts_py.config.environment import Environment

PORT = 3100
SERVICE = "paperclip"
BALANCER = "paperclip-lb"


def api_url(environment: Environment) -> str:
    """The URL of the server inside the cluster, for agents."""
    return f"http://{SERVICE}.{environment.namespace.name}.svc.{environment.cluster.domain}:{PORT}"


def in_cluster_names(environment: Environment, service: str) -> tuple[str, ...]:
    """Every form in which a pod may write the name of one of the server's Services."""
    short = f"{service}.{environment.namespace.name}"
    return (short, f"{short}.svc", f"{short}.svc.{environment.cluster.domain}")


def allowed_hostnames(environment: Environment) -> tuple[str, ...]:
    """The server refuses every other Host header with 403, and the variable replaces its own list: so all of them."""
    server = environment.server
    public = urlsplit(server.public_url).hostname or ""
    hosts = [
        public,
        *server.ingress_hosts,
        *server.allowed_hostnames,
        *in_cluster_names(environment, SERVICE),
    ]
    if server.load_balancer is not None:
        hosts = [server.load_balancer.ip, *hosts, *in_cluster_names(environment, BALANCER)]
    for extra in server.services:
        if extra.load_balancer is not None and any((port.target or port.port) == PORT for port in extra.ports):
            hosts.append(extra.load_balancer.ip)
    return tuple(dict.fromkeys(host for host in hosts if host))
