"""What `serve` is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from paperclip_launcher.cluster.access import Access
from paperclip_launcher.masking import Mask
from paperclip_launcher.provision import Stock
from paperclip_launcher.settings import Settings
from paperclip_launcher.templates import Templates


@dataclass(frozen=True)
class ServeOptions:
    """`stdio`: one client on standard input and output, whose end is ours where there is no `socket`.

    `socket` is the path of a Unix socket for any number of clients; `http` host and port of healthz, readyz and
    metrics, None for none. `journal` is a folder of this launcher alone.
    """

    access: Access
    settings: Settings
    templates: Templates
    journal: Path
    stdio: bool = False
    socket: Path | None = None
    http: tuple[str, int] | None = None
    stock: Stock = field(default_factory=Stock)
    mask: Mask = field(default_factory=Mask)


def http_address(text: str) -> tuple[str, int]:
    """Of "9464", ":9464", "127.0.0.1:9464" or "[::1]:9464"; without a host it is this machine alone. ValueError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ValueError(f"{text!r} is no address such as 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)
