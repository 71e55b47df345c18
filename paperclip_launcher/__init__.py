"""Runs every agent run as a Kubernetes Job that is never lost. Never imports cdk8s or jsii: it starts without Node.

As a library:

    from paperclip_launcher.launcher import Launcher     runs, their Jobs, logs and results
    from paperclip_launcher.request import RunRequest    what Paperclip asks for, read and checked

As a program: paperclip-launcher (cli), whose verb serve speaks JSON-RPC (serve). Nothing is imported here, so that a
part costs only what it needs.
"""

from __future__ import annotations


def version() -> str:
    """Of the installed package; "0" where it is used from its folder without being installed."""
    from importlib import metadata  # noqa: PLC0415  20 ms that hardly anybody needs

    try:
        return metadata.version("paperclip-gitops")
    except metadata.PackageNotFoundError:
        return "0"
