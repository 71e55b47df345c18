"""egress: who may talk to whom, of dist, of a folder, of one workload, and for programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from charts_py.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Egress]
  egress:
  - to: [{ipBlock: {cidr: 10.9.0.0/16}}]
    ports: [{port: 5432}]
"""


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def egress(*arguments):
    return main(["egress", *map(str, arguments)])


def test_a_folder_of_anybody(tmp_path, capsys):
    (tmp_path / "pod.yaml").write_text(POD)
    assert egress(tmp_path) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "Pod shop/web"
    assert re.split(" {2,}", out[1])[1:] == ["egress to", "10.9.0.0/16 (private)", "TCP 5432", "NetworkPolicy shop/web"]
    assert out[2].strip() == "ingress    no policy selects it: everything"
    assert "  can reach  internet: no" in out


@pytest.mark.parametrize("wanted", ["web", "shop/web", "Pod/web", "Pod/shop/web"])
def test_one_workload_by_any_of_its_names(tmp_path, capsys, wanted):
    (tmp_path / "pod.yaml").write_text(
        POD + "---\n" + POD.split("---", maxsplit=1)[0].replace("name: web,", "name: other,")
    )
    assert egress(wanted, tmp_path) == 0
    assert [one for one in capsys.readouterr().out.splitlines() if one.startswith("Pod")] == ["Pod shop/web"]


def test_a_workload_that_is_not_there_names_those_that_are(tmp_path, capsys):
    (tmp_path / "pod.yaml").write_text(POD)
    assert egress("api", tmp_path) == 2
    error = capsys.readouterr().err
    assert "no workload is called api" in error
    assert "shop/web" in error


def test_what_starts_no_pods_is_wrong_use(tmp_path, capsys):
    (tmp_path / "policy.yaml").write_text(POD.split("---\n")[1])
    assert egress(tmp_path) == 2
    assert "nothing starts pods" in capsys.readouterr().err


def test_every_environment_with_a_run_of_each_template(capsys):
    assert egress() == 0
    titles = [one for one in capsys.readouterr().out.splitlines() if one and not one.startswith(" ")]
    assert "minimal: Job paperclip-agents/claude" in titles
    assert "operating-post: Deployment paperclip-system/paperclip" in titles


def test_for_programs(tmp_path, capsys):
    (tmp_path / "pod.yaml").write_text(POD)
    assert egress("--format", "json", tmp_path) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["apiVersion"], document["kind"]) == ("paperclip-gitops/v1", "Egress")
    (workload,) = document["sets"][0]["workloads"]
    assert workload["name"] == "Pod shop/web"
    assert workload["ingress"]["open"] is True
    (line,) = workload["egress"]["allows"]
    assert line == {"peer": "10.9.0.0/16 (private)", "ports": "TCP 5432", "policies": ["NetworkPolicy shop/web"]}
    assert {"what": "cloud metadata", "answer": "no"} in workload["reaches"]


def test_facts_among_the_manifests_count(tmp_path, capsys):
    facts = "apiVersion: paperclip-gitops/v1\nkind: Facts\nclusterCIDRs: [10.9.0.0/16]\n"
    (tmp_path / "pod.yaml").write_text(POD + "---\n" + facts)
    assert egress(tmp_path) == 0
    assert "10.9.0.0/16 (of the cluster)" in capsys.readouterr().out
    (tmp_path / "pod.yaml").write_text(POD + "---\n" + facts.replace("CIDRs", "Cidrs"))
    assert egress(tmp_path) == 2
