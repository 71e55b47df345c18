from __future__ import annotations

import subprocess

import pytest

from tests.support import needed


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A folder with NAME.crt and NAME.key, each its own authority: "server" for 127.0.0.1, "client", and "other"."""
    openssl = needed.program("openssl", "connections with TLS")
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("server", "client", "other"):
        subprocess.run(
            [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
    return folder
