"""Under which hosts the server lets itself be called."""

from __future__ import annotations

from pathlib import Path

from charts_py.config.environment import Environment
from charts_py.config.load import parse
from charts_py.constructs.addresses import allowed_hostnames

ROOT = Path(__file__).parents[2]


def hosts(port):
    text = (ROOT / "environments" / "operating-post.yaml").read_text()
    extra = f"  services: [{{name: side, loadBalancer: {{ip: 192.168.55.240}}, ports: [{port}]}}]"
    config, _ = parse(text.replace("\nserver:\n", f"\nserver:\n{extra}\n", 1).encode(), "a.yaml", Environment)
    return allowed_hostnames(config)


def test_a_further_service_that_leads_to_the_server_brings_its_address():
    assert "192.168.55.240" in hosts("{name: web, port: 80, target: 3100}")


def test_one_that_leads_to_a_sidecar_does_not():
    assert "192.168.55.240" not in hosts("{name: ssh, port: 22, target: 2222}")
