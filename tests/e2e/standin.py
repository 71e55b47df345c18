"""The image of a stand-in for an agent: busybox and a script that speaks Claude Code's stream-json."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NAME = "agents.test/stand-in:1"
_SOURCE = Path(__file__).parent / "images/stand-in"
_FOLDERS = ("bin", "tmp", "etc", "proc", "sys", "dev", "run", "workspace")


@dataclass(frozen=True)
class Image:
    """An image in a file. `digest` is that of its manifest, sha256:..., as a registry would serve it."""

    archive: Path
    name: str
    digest: str

    @property
    def by_digest(self) -> str:
        """The name under which a runtime keeps an image that it pulled by its digest."""
        return f"{self.name.rpartition(':')[0]}@{self.digest}"


def build(busybox: Path, tools: Path, folder: Path) -> Image:
    """The image, made in `folder` from a static busybox and the maker of images in `tools`."""
    root = folder / "stand-in"
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy(busybox, root / "bin/busybox")
    shutil.copy(_SOURCE / "claude", root / "bin/claude")
    (root / "bin/claude").chmod(0o755)
    applets = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in applets:
        if not (root / "bin" / applet).exists():
            (root / "bin" / applet).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\nagent:x:1000:1000:agent:/workspace:/bin/sh\n")
    archive = folder / "stand-in.tar"
    maker = [sys.executable, str(tools / "mkimage.py"), str(archive), NAME, str(root)]
    said = subprocess.run(maker, check=True, capture_output=True, text=True).stdout
    digest = re.search("manifest (sha256:[0-9a-f]{64})", said)
    assert digest is not None, said
    return Image(archive, NAME, digest[1])
