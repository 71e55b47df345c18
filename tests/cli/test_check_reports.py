"""check: one run and many reports, baselines, waivers to paste, facts of the cluster, and no secret in any of it."""

from __future__ import annotations

import base64
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from charts_py.cli.main import main
from policies.reports import FORMATS
from tests.support import needed

ROOT = Path(__file__).resolve().parents[2]
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
    - name: web
      image: nginx:1
    - name: sidecar
      image: envoy:2
"""


def check(*arguments):
    return main(["check", "--kubeconform", "off", *map(str, arguments)])


@pytest.fixture
def pod(empty):
    Path("pod.yaml").write_text(POD)
    return empty


def report_of(capsys, *arguments):
    check(*arguments, "--format", "json")
    return json.loads(capsys.readouterr().out)


def of_policy(report, policy):
    return [one for one in report["findings"] if one["policy"] == policy]


class TestOutputs:
    def test_several_reports_come_from_one_run(self, pod, capsys):
        files = {form: Path(f"out.{form}") for form in FORMATS}
        flags = [part for form, path in files.items() for part in ("--output", f"{form}={path}")]
        assert check("pod.yaml", *flags, "--output", "github") == 1
        assert capsys.readouterr().out == files["github"].read_text()
        count = len(json.loads(files["json"].read_text())["findings"])
        assert len(json.loads(files["sarif"].read_text())["runs"][0]["results"]) == count > 3
        for path in files.values():
            assert "image-digest" in path.read_text()

    def test_the_files_are_as_their_schemas_say(self, pod, capsys):
        assert check("pod.yaml", "--output", "json=a.json", "--output", "sarif=a.sarif") == 1
        ours = json.loads((ROOT / "schemas" / "report.schema.json").read_text())
        theirs = json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text())
        assert [
            error.message for error in Draft202012Validator(ours).iter_errors(json.loads(Path("a.json").read_text()))
        ] == []
        assert [
            error.message for error in Draft7Validator(theirs).iter_errors(json.loads(Path("a.sarif").read_text()))
        ] == []

    def test_text_stays_on_stdout_when_the_others_go_to_files(self, pod, capsys):
        assert check("pod.yaml", "--output", "json=a.json") == 1
        assert "Pod shop/web" in capsys.readouterr().out

    def test_text_is_the_talk_when_stdout_belongs_to_another(self, pod, capsys):
        assert check("pod.yaml", "--format", "sarif") == 1
        said = capsys.readouterr()
        assert json.loads(said.out)["version"] == "2.1.0"
        assert "Pod shop/web" in said.err

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--output", "sarif", "--output", "github"], "sarif and github go both to stdout"),
            (["--format", "json", "--output", "sarif"], "json and sarif go both to stdout"),
            (["--format", "json", "--suggest-waivers"], "go both to stdout"),
            (["--output", "html=x"], "there is no format 'html'"),
            (["--output", "json="], "the file has no name"),
            (["--output", "json=x", "--output", "sarif=x"], "two reports go to one file"),
            (["--output", "json=none/x.json"], "none/x.json: cannot be written: No such file or directory"),
            (["--max-bytes", "10", "--format", "markdown"], "the least is 1,000"),
            (["--baseline", "none.json"], "none.json: cannot be read"),
            (["--baseline", "pod.yaml"], "pod.yaml: is no JSON"),
            (["--external", "nonsense"], "is no object; write Kind/namespace/name"),
            (["--format", "html"], "invalid choice"),
        ],
    )
    def test_what_cannot_be_done_is_wrong_use(self, flags, message, pod, capsys):
        assert check("pod.yaml", *flags) == 2
        assert message in capsys.readouterr().err

    def test_markdown_keeps_to_its_bytes(self, pod, capsys):
        assert check("pod.yaml", "--format", "markdown", "--max-bytes", "1000") == 1
        out = capsys.readouterr().out
        assert len(out.encode()) <= 1000
        assert "more are left out" in out

    def test_colour_is_for_terminals(self, pod, capsys, monkeypatch):
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("FORCE_COLOR", "1")
        check("pod.yaml", "--output", "text=a.txt")
        assert "\033[31m" in capsys.readouterr().out
        assert "\033" not in Path("a.txt").read_text()
        monkeypatch.setenv("NO_COLOR", "1")
        check("pod.yaml")
        assert "\033" not in capsys.readouterr().out


class TestFailing:
    @pytest.mark.parametrize(("severity", "code"), [("error", 0), ("warning", 1), ("info", 1), ("never", 0)])
    def test_from_which_severity_on(self, severity, code, empty, capsys):
        Path("a.yaml").write_text(
            "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: b}\nspec: {}\n"
        )
        Path("schemas/example.com").mkdir(parents=True)
        Path("schemas/example.com/thing_v1.json").write_text('{"type": "object"}')
        assert check("a.yaml", "--crd-schemas", "schemas", "--fail-on", severity) == code

    def test_never_is_never(self, pod, capsys):
        assert check("pod.yaml", "--fail-on", "never") == 0
        assert "error image-digest" in capsys.readouterr().out

    def test_only_what_is_new_fails(self, pod, capsys):
        assert check("pod.yaml", "--output", "json=before.json") == 1
        assert check("pod.yaml", "--baseline", "before.json") == 0
        assert "; 0 new, 0 fixed" in capsys.readouterr().err
        Path("pod.yaml").write_text(POD.replace("envoy:2", "envoy:3"))
        assert check("pod.yaml", "--baseline", "before.json", "--output", "json=now.json") == 1
        said = capsys.readouterr()
        assert said.err.splitlines()[-1].endswith("; 1 new, 1 fixed")
        assert "fixed: image-digest  Pod shop/web /spec/containers/1/image" in said.out
        now = json.loads(Path("now.json").read_text())
        assert [one["message"] for one in now["findings"] if not one["known"]] == [
            "envoy:3 has no digest, and must end in @sha256:..."
        ]
        schema = json.loads((ROOT / "schemas" / "report.schema.json").read_text())
        assert [error.message for error in Draft202012Validator(schema).iter_errors(now)] == []


class TestWaivers:
    def test_what_is_suggested_can_be_pasted(self, pod, capsys):
        assert check("pod.yaml", "--suggest-waivers") == 1
        said = capsys.readouterr()
        entries = yaml.safe_load(said.out)["waivers"]
        assert {"policy", "object", "reason", "owner", "expires"} <= set(entries[0])
        assert {one.get("container") for one in entries if one["policy"] == "image-digest"} == {"web", "sidecar"}
        Path("w.yaml").write_text(said.out)
        report = report_of(capsys, "pod.yaml", "--waivers", "w.yaml")
        assert all(one["waived"] for one in of_policy(report, "image-digest"))
        assert of_policy(report, "waiver-live") == []

    def test_one_container_can_be_waived_and_the_other_not(self, pod, capsys):
        check("pod.yaml", "--suggest-waivers")
        entries = yaml.safe_load(capsys.readouterr().out)["waivers"]
        kept = [one for one in entries if one.get("container") == "sidecar" and one["policy"] == "image-digest"]
        Path("w.yaml").write_text(json.dumps({"waivers": kept}))
        report = report_of(capsys, "pod.yaml", "--waivers", "w.yaml")
        assert [(one["container"], bool(one["waived"])) for one in of_policy(report, "image-digest")] == [
            ("web", False),
            ("sidecar", True),
        ]

    def test_nothing_open_suggests_no_entry(self, project, capsys):
        assert check("dist/minimal", "--suggest-waivers", "--fail-on", "never") == 0
        assert isinstance(yaml.safe_load(capsys.readouterr().out)["waivers"], list)

    def test_a_waiver_of_no_policy_is_a_finding(self, pod, capsys):
        Path("w.yaml").write_text(
            "waivers:\n  - {policy: image-digst, object: Pod/shop/web, reason: so, owner: me, expires: '2030-01-01'}\n"
        )
        (one,) = of_policy(report_of(capsys, "pod.yaml", "--waivers", "w.yaml"), "waiver-live")
        assert one["source"] == {"file": "w.yaml", "line": 2, "construct": ""}
        assert "did you mean image-digest?" in one["message"]


FACTS = """\
apiVersion: paperclip-gitops/v1
kind: Facts
storageClasses: {fast: [ReadWriteOnce]}
kubernetesVersion: "1.33"
"""
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: slow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


class TestFacts:
    def test_from_a_file_or_from_a_document_among_the_manifests(self, empty, capsys):
        Path("claim.yaml").write_text(CLAIM)
        Path("cluster.yaml").write_text(FACTS)
        assert of_policy(report_of(capsys, "claim.yaml"), "pvc-storageclass") == []
        (by_file,) = of_policy(report_of(capsys, "claim.yaml", "--facts", "cluster.yaml"), "pvc-storageclass")
        report = report_of(capsys, "claim.yaml", "cluster.yaml")
        assert of_policy(report, "pvc-storageclass") == [by_file]
        assert report["objects"] == 1

    def test_a_kind_without_a_schema_can_be_declared(self, empty, capsys):
        Path("all.yaml").write_text("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: b}\n")
        Path("cluster.yaml").write_text(f"{FACTS}uncheckedKinds: [example.com/Thing]\n")
        assert len(of_policy(report_of(capsys, "all.yaml"), "schema-valid")) == 1
        assert of_policy(report_of(capsys, "all.yaml", "--facts", "cluster.yaml"), "schema-valid") == []

    def test_the_later_word_counts(self, empty, capsys):
        Path("all.yaml").write_text(f"{CLAIM}---\n{FACTS}")
        Path("more.yaml").write_text(FACTS.replace("fast", "slow"))
        assert of_policy(report_of(capsys, "all.yaml", "--facts", "more.yaml"), "pvc-storageclass") == []

    def test_broken_ones_among_manifests_are_findings_and_in_a_file_end_with_3(self, empty, capsys):
        Path("all.yaml").write_text(f"{CLAIM}---\n{FACTS}storageClass: {{}}\nannounced: 5\n")
        found = of_policy(report_of(capsys, "all.yaml"), "yaml-readable")
        assert [one["message"].partition(";")[0] for one in found] == [
            "Facts: announced: must be true or false",
            "Facts: there is no fact 'storageClass'",
        ]
        assert {one["source"]["line"] for one in found} == {6}
        Path("f.yaml").write_text(f"{FACTS}storageClass: {{}}\n")
        assert check("all.yaml", "--facts", "f.yaml") == 3
        assert "f.yaml: there is no fact 'storageClass'" in capsys.readouterr().err
        for name in ("claim.yaml", "none.yaml"):
            assert check("all.yaml", "--facts", name) == 3

    def test_a_set_of_facts_alone_is_nothing_to_check(self, empty, capsys):
        Path("cluster.yaml").write_text(FACTS)
        assert check("cluster.yaml") == 2

    def test_what_is_elsewhere_is_not_missed_and_what_nobody_needs_is_told(self, empty, capsys):
        Path("pod.yaml").write_text(
            POD.replace("image: nginx:1", "image: nginx:1\n      envFrom: [{secretRef: {name: auth}}]")
        )
        assert len(of_policy(report_of(capsys, "pod.yaml"), "secret-ref-resolves")) == 1
        flags = ["--external", "Secret/shop/auth:password", "--external", "Secret/shop/old"]
        report = report_of(capsys, "pod.yaml", *flags)
        assert of_policy(report, "secret-ref-resolves") == []
        (stale,) = of_policy(report, "external-live")
        assert stale["object"] == {"apiVersion": "", "kind": "Secret", "namespace": "shop", "name": "old"}

    def test_a_version_on_the_command_line_has_the_last_word(self, empty, capsys):
        Path("all.yaml").write_text(
            f"{FACTS}---\napiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\nmetadata: {{name: a}}\n"
            "spec: {priorityLevelConfiguration: {name: x}}\n"
        )
        (gone,) = of_policy(report_of(capsys, "all.yaml"), "api-version-served")
        assert gone["severity"] == "error"
        (soon,) = of_policy(report_of(capsys, "all.yaml", "--kubernetes-version", "1.31"), "api-version-served")
        assert soon["severity"] == "warning"


CANARIES = [f"canary{number}-5f3a" for number in range(12)]


def planted():
    """Secrets wherever people have put them, among faults that make every family speak."""
    c = CANARIES
    return f"""\
apiVersion: v1
kind: Secret
metadata:
  name: keys
  namespace: shop
  annotations: {{kubectl.kubernetes.io/last-applied-configuration: "{c[0]}"}}
data: {{password: {base64.b64encode(c[1].encode()).decode()}, odd: 5}}
stringData: {{token: "{c[2]}", 7x!: "{c[2]}"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: shop}}
data:
  API_KEY: sk-ant-{c[3]}
  url: "https://user:{c[4]}@example.com/"
  number: 12
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  annotations: {{note: "password={c[5]}", argocd.argoproj.io/sync-wave: "{c[5]}"}}
spec:
  replicas: two
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}, annotations: {{token: "{c[6]}"}}}}
    spec:
      containers:
        - name: web
          image: nginx
          command: [sh, -c, "login --password {c[7]}"]
          env:
            - {{name: DB_PASSWORD, value: "{c[8]}"}}
            - {{name: DATABASE_URL, value: "postgres://app:{c[9]}@db/app"}}
            - {{name: DB_PASSWORD, value: "{c[8]}"}}
            - {{name: NUMBER, value: [{c[10]}]}}
            - {{name: LATER, value: "$(NOT_YET) {c[11]}"}}
            - {{name: NOT_YET, value: "{c[11]}"}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: run
  namespace: shop
  labels: {{app.kubernetes.io/component: agent-job, app.kubernetes.io/part-of: paperclip}}
spec:
  template:
    spec:
      containers:
        - name: agent
          image: "registry.example.com/agent:1"
          args: ["ghp_{c[7]}", "--header", "Authorization: Bearer {c[6]}"]
          env: [{{name: GITHUB_TOKEN, value: "ghp_{c[9]}"}}]
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {{name: keys, namespace: shop}}
spec:
  target: {{template: {{data: {{url: "redis://:{c[4]}@redis"}}}}}}
"""


@pytest.mark.parametrize("form", [*FORMATS, "suggest"])
def test_no_report_ever_holds_a_secret(form, empty, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(planted().encode())))
    how = ["--suggest-waivers"] if form == "suggest" else ["--format", form]
    assert check("-", *how) == 1
    said = capsys.readouterr()
    text = said.out + said.err
    assert [secret for secret in CANARIES if secret in text] == []
    assert base64.b64encode(CANARIES[1].encode()).decode() not in text
    assert "DB_PASSWORD" in text or form == "suggest"


def test_the_real_kubeconform_tells_no_secret_either(empty, capsys):
    binary = needed.kubeconform()
    Path(".tools/bin").mkdir(parents=True)
    shutil.copy(binary, ".tools/bin/kubeconform")
    Path("all.yaml").write_text(planted())
    assert main(["check", "all.yaml", "--kubeconform", "require"]) == 1
    said = capsys.readouterr()
    assert [secret for secret in CANARIES if secret in said.out + said.err] == []


def test_no_word_of_what_cannot_be_read_is_repeated(empty, capsys):
    Path("a.yaml").write_text(f'apiVersion: v1\nkind: Secret\nstringData:\n  token: "{CANARIES[0]}\n')
    Path("b.yaml").write_text(f"apiVersion: v1\nkind: Secret\nstringData:\n  token: {CANARIES[0]}: {CANARIES[1]}\n")
    Path("c.yaml").write_text(f"{CANARIES[0]}\n")
    assert check("a.yaml", "b.yaml", "c.yaml") == 1
    said = capsys.readouterr()
    assert "canary" not in said.out + said.err
