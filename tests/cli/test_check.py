"""check: anybody's manifests, each finding at its line, by the config of the environment where there is one."""

from __future__ import annotations

import datetime
import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from charts_py.cli.main import main
from tests.support import needed

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: shop
  labels: &labels
    app.kubernetes.io/name: settings
    app.kubernetes.io/instance: shop
    app.kubernetes.io/component: config
    app.kubernetes.io/part-of: shop
    app.kubernetes.io/managed-by: hand
data:
  mode: plain
"""
BAD = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels:
    app: café
spec:
  replicas: two
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: nginx
"""


LAST = GOOD.count("\n") + 1 + BAD.count("\n")


def check(*arguments):
    return main(["check", "--kubeconform", "off", *map(str, arguments)])


def report(capsys, *arguments, code=1):
    assert check(*arguments, "--format", "json") == code
    return json.loads(capsys.readouterr().out)


def findings(capsys, *arguments, code=1):
    return [
        (one["policy"], one["pointer"], one["source"]["line"])
        for one in report(capsys, *arguments, code=code)["findings"]
    ]


def feed(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_what_is_shipped_has_no_open_finding(project, capsys):
    document = report(capsys, code=0)
    assert document["kind"] == "Report"
    assert document["objects"] == len(
        [path for path in Path("dist").rglob("*-*.yaml") if path.parent.name != "job-templates"]
    )
    assert document["summary"]["error"] == 0
    assert document["summary"]["waived"] > 0


def test_each_finding_stands_at_the_line_of_its_field(empty, capsys):
    Path("web.yaml").write_text(f"{GOOD}---\n{BAD}")
    assert set(findings(capsys, "web.yaml")) >= {
        ("image-no-floating-tag", "/spec/template/spec/containers/0/image", LAST),
        ("label-syntax", "/metadata/labels/app", LAST - 11),
        ("schema-valid", "/spec/replicas", LAST - 9),
    }


def test_a_person_sees_object_file_line_message_and_mend(empty, capsys):
    Path("web.yaml").write_text(BAD)
    assert check("web.yaml") == 1
    said = capsys.readouterr()
    assert "Deployment web  web.yaml:17\n" in said.out
    assert "  error image-no-floating-tag: /spec/template/spec/containers/0/image: nginx follows `latest`" in said.out
    assert "    mend: " in said.out
    assert "\033" not in said.out + said.err
    assert re.fullmatch(r"1 object: \d+ error, \d+ warning(, \d+ info)?, 0 waived", said.err.splitlines()[-1])


def test_a_folder_is_read_to_its_depth_and_only_manifests_in_it(empty, capsys):
    for name, text in (
        ("a/one.yaml", GOOD),
        ("a/b/two.yml", GOOD.replace("settings", "two")),
        ("a/three.json", '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}}'),
        ("a/README.md", "# no: manifest: at all"),
        ("a/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"),
    ):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    assert check("a", "--fail-on", "never") == 0
    said = capsys.readouterr().err
    assert (
        "left out: a/kustomization.yaml: kustomize reads it: `kustomize build DIR | paperclip-gitops check -`" in said
    )
    assert said.splitlines()[-1].startswith("3 objects: ")


def test_stdin_and_files_are_one_set(empty, capsys, monkeypatch):
    Path("a.yaml").write_text(GOOD)
    feed(monkeypatch, GOOD)
    document = report(capsys, "-", "a.yaml")
    assert [one["policy"] for one in document["findings"]] == ["unique-identity"]
    assert "stands 2 times in this set (first: stdin:1)" in document["findings"][0]["message"]


def test_a_list_is_what_it_holds(empty, capsys):
    indented = "".join(f"    {line}\n" for line in BAD.splitlines())
    Path("list.yaml").write_text(f"apiVersion: v1\nkind: List\nitems:\n  -\n{indented}  - 5\n")
    found = findings(capsys, "list.yaml")
    assert ("schema-valid", "/spec/replicas", 12) in found
    assert ("yaml-readable", "/items/1", 22) in found


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: b\n c: d\n", 2, 'line 2, column 3: a ":" stands where no key can be'),
        ("kind: A\nkind: B\n", 2, 'line 2, column 1: the key "kind" stands here and at 1:1'),
        ("a: *x\n", 1, 'line 1, column 4: "*x" stands for nothing that is whole here'),
        ("just text\n", 1, "is no manifest: a mapping with apiVersion, kind and metadata"),
        ("replicas: 1\n", 1, "is no manifest: apiVersion and kind must be text"),
        ("apiVersion: 1\nkind: X\n", 1, "is no manifest: apiVersion must be text"),
    ],
)
def test_what_cannot_be_read_is_a_finding_and_the_rest_is_still_judged(text, line, message, empty, capsys):
    Path("a.yaml").write_text(text)
    Path("b.yaml").write_text(BAD)
    document = report(capsys, "a.yaml", "b.yaml")
    unread = [one for one in document["findings"] if one["policy"] == "yaml-readable"]
    assert [(one["source"]["file"], one["source"]["line"], one["message"]) for one in unread] == [
        ("a.yaml", line, message)
    ]
    assert {one["source"]["file"] for one in document["findings"]} == {"a.yaml", "b.yaml"}


def test_a_bomb_of_aliases_is_refused_and_not_unfolded(empty, capsys):
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    Path("bomb.yaml").write_text(f"a0: &a0 [x]\n{levels}\n")
    assert findings(capsys, "bomb.yaml") == [("yaml-readable", "", 6)]


def test_a_file_that_is_deeper_than_any_manifest_is_refused(empty, capsys):
    Path("deep.yaml").write_text("a: " + "[" * 5000 + "]" * 5000)
    assert findings(capsys, "deep.yaml") == [("yaml-readable", "", 1)]


@pytest.mark.parametrize("arguments", [["dist"], ["none"], [], ["empty.yaml"]])
def test_nothing_to_check_is_wrong_use(arguments, empty, capsys):
    Path("dist").mkdir()
    Path("empty.yaml").write_text("# nothing\n---\n")
    assert check(*arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_the_version_of_the_config_counts_unless_a_flag_says_another(project, capsys):
    autoscaler = (
        "apiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\nmetadata: {name: a}\n"
        "spec: {priorityLevelConfiguration: {name: x}}\n"
    )
    Path("dist/minimal/paperclip-system/flowschema-a.yaml").write_text(autoscaler)
    path = "dist/minimal/paperclip-system/flowschema-a.yaml"
    found = [one for one in report(capsys, "dist/minimal")["findings"] if one["source"]["file"] == path]
    assert [one["policy"] for one in found if one["severity"] == "error"].count("api-version-served") == 1
    assert "schema-valid" not in [one["policy"] for one in found]
    (older,) = [
        one
        for one in report(capsys, "dist/minimal", "--kubernetes-version", "1.31")["findings"]
        if one["policy"] == "api-version-served"
    ]
    assert (older["severity"], older["pointer"]) == ("warning", "/apiVersion")


def test_a_class_is_judged_by_the_config_of_its_environment(project, capsys):
    path = Path("dist/operating-post/paperclip-system/persistentvolumeclaim-paperclip-data.yaml")
    path.write_text(path.read_text().replace("ReadWriteOnce", "ReadOnlyMany"))
    document = report(capsys, "dist/operating-post")
    (found,) = [one for one in document["findings"] if one["policy"] == "pvc-storageclass"]
    assert found["source"]["file"] == str(path)


def test_without_the_config_files_the_rendered_state_is_still_checked(project, capsys):
    shutil.rmtree("environments")
    count = len(list(Path("dist/minimal").glob("paperclip-*/*.yaml")))
    assert check("dist/minimal", "--fail-on", "never") == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"{count} objects: ")


def test_what_synth_writes_besides_objects_is_left_out(project, capsys):
    Path("dist/minimal/provenance.json").write_text("{")
    assert check("dist/minimal") == 0


def test_a_custom_kind_without_a_schema_is_a_finding_unless_declared(project, capsys):
    assert check("dist/operating-post") == 0
    Path("environments/operating-post.yaml").write_text(
        Path("environments/operating-post.yaml").read_text().replace("    - external-secrets.io/ExternalSecret\n", "")
    )
    capsys.readouterr()
    document = report(capsys, "dist/operating-post")
    assert {one["message"] for one in document["findings"] if not one["waived"]} == {
        "no schema for external-secrets.io/v1 ExternalSecret"
    }


def test_all_schemas_can_be_required(project, capsys):
    assert check("dist/operating-post", "--require-schemas") == 1
    assert "no schema for argoproj.io/v1alpha1 AppProject" in capsys.readouterr().out


def test_a_waiver_covers_and_one_that_is_not_used_here_is_no_finding(empty, capsys):
    Path("web.yaml").write_text(
        BAD.replace("replicas: two", "replicas: 2").replace("café", "cafe").replace("nginx", "nginx:1")
    )
    (before,) = [one for one in report(capsys, "web.yaml")["findings"] if one["policy"] == "image-digest"]
    assert not before["waived"]
    soon = datetime.datetime.now(tz=datetime.UTC).date() + datetime.timedelta(days=30)
    waivers = [
        {"policy": "image-digest", "object": f"Deployment/{name}", "reason": "so", "owner": "me", "expires": str(soon)}
        for name in ("web", "other")
    ]
    Path("w.yaml").write_text(json.dumps({"waivers": waivers}, indent=2))
    capsys.readouterr()
    document = report(capsys, "web.yaml", "--waivers", "w.yaml", "--fail-on", "never", code=0)
    assert document["summary"]["waived"] == 1
    assert [one["waived"] for one in document["findings"] if one["policy"] == "image-digest"] == ["so"]
    assert "waiver-live" not in [one["policy"] for one in document["findings"]]
    bare = report(capsys, "web.yaml", "--waivers", "w.yaml", "--no-waivers")
    assert bare["summary"]["waived"] == 0


def test_waivers_that_cannot_be_read_end_with_3(empty, capsys):
    Path("a.yaml").write_text(GOOD)
    Path("w.yaml").write_text("waivers: 5\n")
    assert check("a.yaml", "--waivers", "w.yaml") == 3


def test_a_warning_fails_only_when_asked(empty, capsys):
    Path("a.yaml").write_text(
        "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: shop}\nspec: {}\n"
    )
    folder = Path("schemas/example.com")
    folder.mkdir(parents=True)
    (folder / "thing_v1.json").write_text('{"type": "object"}')
    assert check("a.yaml", "--crd-schemas", "schemas") == 0
    assert check("a.yaml", "--crd-schemas", "schemas", "--fail-on", "warning") == 1
    assert "is not checking: it types no content" in capsys.readouterr().out


def test_that_kubeconform_did_not_run_is_one_line(empty, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(empty))
    Path("a.yaml").write_text(GOOD)
    assert main(["check", "a.yaml"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "kubeconform: not run (not installed; `make tools`)",
        "1 object: 0 error, 0 warning, 0 waived",
    ]
    assert main(["check", "a.yaml", "--kubeconform", "require"]) == 4
    assert "kubeconform is neither in" in capsys.readouterr().err


@pytest.fixture
def kubeconform(empty):
    """The real binary, where `make tools` puts it."""
    (empty / ".tools" / "bin").mkdir(parents=True)
    shutil.copy(needed.kubeconform(), empty / ".tools" / "bin" / "kubeconform")
    return empty


def test_the_real_kubeconform_is_of_the_same_mind_and_says_nothing_twice(kubeconform, capsys):
    Path("a.yaml").write_text(GOOD)
    assert main(["check", "a.yaml", "--kubeconform", "require"]) == 0
    Path("b.yaml").write_text(BAD)
    assert main(["check", "b.yaml", "--kubeconform", "require", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [one["policy"] for one in document["findings"]].count("schema-valid") == 1
    assert document["kubeconform"].endswith(".tools/bin/kubeconform")


def test_the_real_kubeconform_accepts_everything_that_is_shipped(project, capsys):
    (project / ".tools" / "bin").mkdir(parents=True)
    shutil.copy(needed.kubeconform(), project / ".tools" / "bin" / "kubeconform")
    assert main(["check", "--kubeconform", "require"]) == 0, capsys.readouterr().err


def test_a_kubeconform_that_does_not_run_ends_with_4(empty, capsys):
    binary = empty / ".tools" / "bin" / "kubeconform"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\nexit 3\n")
    binary.chmod(0o755)
    Path("a.yaml").write_text(GOOD)
    assert main(["check", "a.yaml"]) == 4
    assert "kubeconform gave no report" in capsys.readouterr().err
