"""The server's ConfigMaps: its variables, and the files of its volumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator

from charts_py.config.environment import Environment
from charts_py.constructs.addresses import PORT, allowed_hostnames
from charts_py.constructs.component import Concept, Inputs
from charts_py.constructs.metadata import metadata
from kubekit.identity import Manifest

SETTINGS = "paperclip-config"


class ServerConfig(Concept):
    """What the server reads at its start."""

    concept = "config"

    @staticmethod
    def objects(inputs: Inputs) -> Iterator[Manifest]:
        yield from config_maps(inputs.environment)


def config_maps(environment: Environment) -> Iterator[Manifest]:
    yield _config_map(environment, SETTINGS, settings(environment))
    for volume in environment.server.volumes:
        if volume.config is not None:
            yield _config_map(environment, volume.config.name, dict(volume.config.files))


def checksum(environment: Environment, further: Iterable[Manifest] = ()) -> str:
    """A hash over every ConfigMap of the pod, `further` ones too: it changes exactly when one of them does."""
    read = (*config_maps(environment), *further)
    contents = {manifest["metadata"]["name"]: manifest["data"] for manifest in read}
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()[:32]


def settings(environment: Environment) -> dict[str, str]:
    """The variables of the server; what the config names itself wins."""
    server = environment.server
    derived = {
        "PORT": str(PORT),
        "HOST": "0.0.0.0",  # noqa: S104  the pod's own network namespace
        "SERVE_UI": "true",
        "PAPERCLIP_HOME": "/paperclip",
        "PAPERCLIP_DEPLOYMENT_MODE": "authenticated",
        "PAPERCLIP_DEPLOYMENT_EXPOSURE": "private",
        "PAPERCLIP_PUBLIC_URL": server.public_url,
        "PAPERCLIP_ALLOWED_HOSTNAMES": ",".join(allowed_hostnames(environment)),
    }
    if server.trust_proxy:
        # Never `true`: then anybody could name any client address.
        derived["TRUST_PROXY"] = ",".join(("loopback", *environment.cluster.pod_cidrs))
    return {**derived, **server.settings}


def _config_map(environment: Environment, name: str, data: dict[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(environment, "ConfigMap", name, environment.namespace.name, "server"),
        "data": data,
    }
