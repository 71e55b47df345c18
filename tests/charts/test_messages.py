"""What people see when something is wrong: each message says what, where, and how to mend it."""

from __future__ import annotations

import pytest

from charts_py.checks import CheckSettings, judge
from charts_py.cli.main import main
from charts_py.images import ImageLock
from charts_py.rendering import RenderedObject, Rendering
from policies.run import run
from policies.world import World


def config_map(name="settings", labels=None):
    metadata = {"name": name, "namespace": "paperclip-system", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


def service(name):
    metadata = {"name": name, "namespace": "paperclip-system"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}}


def found(*manifests):
    return [(one.policy, one.pointer, one.message) for one in run(World([(one, None) for one in manifests]))]


def edit(project, old, new):
    path = project / "environments" / "operating-post.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_crd_without_a_schema(project, capsys):
    edit(project, "    - external-secrets.io/ExternalSecret\n", "")
    assert main(["synth", "--environment", "operating-post"]) == 1
    said = capsys.readouterr().err
    assert "error schema-valid: no schema for external-secrets.io/v1 ExternalSecret" in said
    assert "paperclip-gitops schemas pull" in said


def test_a_declared_crd_without_a_schema_is_named_but_passes_unless_all_are_required(project, capsys):
    assert main(["synth", "--environment", "operating-post"]) == 0
    assert "no schema on this machine for argoproj.io/AppProject" in capsys.readouterr().err
    assert main(["synth", "--environment", "operating-post", "--force", "--require-schemas"]) == 1
    assert "no schema for argoproj.io/v1alpha1 AppProject" in capsys.readouterr().err


def test_a_name_of_64_characters():
    (finding,) = found(service("x" * 64))
    assert finding[:2] == ("name-dns-label", "/metadata/name")
    assert "64 characters" in finding[2]
    assert found(service("x" * 63)) == []


def test_a_label_with_an_accent():
    (finding,) = found(config_map(labels={"app": "café"}))
    assert finding[:2] == ("label-syntax", "/metadata/labels/app")
    assert '"é" at 4' in finding[2]


def test_two_objects_of_one_identity():
    findings = found(config_map(), config_map())
    assert [one[:2] for one in findings] == [("unique-identity", "")]
    assert "ConfigMap paperclip-system/settings stands 2 times in this set" in findings[0][2]


def test_an_address_outside_its_pool(project, capsys):
    edit(project, "ip: 192.168.55.212", "ip: 192.168.55.12")
    assert main(["synth", "--environment", "operating-post"]) == 1
    said = capsys.readouterr().err
    assert "Service paperclip-system/paperclip-lb" in said
    assert "192.168.55.12 lies in no address pool (192.168.55.200 to 192.168.55.254)" in said


def test_a_shared_claim_on_a_class_that_cannot_share(project, capsys):
    edit(project, "accessModes: [ReadWriteOnce, ReadWriteMany]", "accessModes: [ReadWriteOnce]")
    assert main(["synth", "--environment", "operating-post"]) == 1
    said = capsys.readouterr().err
    assert "PersistentVolumeClaim paperclip-agents/paperclip-agent-workspace" in said
    assert "class 'longhorn' supports ReadWriteOnce, and the claim wants ReadWriteMany" in said


def test_a_typo_in_the_config(project, capsys):
    edit(project, "  publicUrl:", "  publicUlr:")
    assert main(["synth"]) == 3
    said = capsys.readouterr().err
    assert "environments/operating-post.yaml:" in said
    assert "server.publicUlr: there is no such field" in said
    assert "did you mean `publicUrl`?" in said


def test_a_field_that_the_schema_does_not_know(project):
    manifest = {**config_map(), "dta": {}}
    rendering = Rendering("here", (RenderedObject("paperclip-system", "config", manifest),), (), {})
    settings = CheckSettings.none()
    (finding,) = judge(rendering, None, ImageLock(), settings).findings
    assert finding.policy == "schema-valid"
    assert finding.pointer == "/dta"
    assert str(finding.source) == "here/paperclip-system/configmap-settings.yaml (config)"


@pytest.mark.parametrize("field", ["reason", "owner", "expires"])
def test_a_waiver_without_what_it_needs(project, capsys, field):
    path = project / "waivers.yaml"
    lines = [line for line in path.read_text().splitlines() if f"{field}:" not in line]
    path.write_text("\n".join(lines) + "\n")
    assert main(["synth"]) == 3
    assert f"waivers.yaml:3:5: `{field}` is required" in capsys.readouterr().err
