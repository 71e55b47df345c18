"""Whatever is given to check: a finding or an error with its place, never a trace, never a silence."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from charts_py import manifests
from charts_py.cli.main import main
from tests.support import needed

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: web
  namespace: shop
automountServiceAccountToken: false
"""


def findings(capsys, *arguments):
    """(policy, file, line, message, remedy) of everything that could not be read, and how many objects could."""
    code = main(["check", "--kubeconform", "off", "--format", "json", *map(str, arguments)])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    document = json.loads(said.out)
    assert document["kind"] == "Report", document
    assert code == (1 if document["summary"]["error"] else 0)
    unread = [
        (one["source"]["file"], one["source"]["line"], one["message"], one["remedy"])
        for one in document["findings"]
        if one["policy"] in {"yaml-readable", "jobtemplate-complete"}
    ]
    return unread, document["objects"]


def only(capsys, *arguments):
    ((file, line, message, remedy),), count = findings(capsys, *arguments)
    assert file
    assert message
    assert remedy
    return file, line, message, count


@pytest.mark.parametrize(
    ("raw", "line", "message"),
    [
        (b"a: b: c", 1, 'a ":" stands where no key can be'),
        (b"kind: A\nkind: B\n", 2, 'the key "kind" stands here and at 1:1'),
        (b"a: *b\n", 1, '"*b" stands for nothing that is whole here'),
        (b"a: &a {b: *a}\n", 1, '"*a" stands for nothing that is whole here'),
        (b"x: {<<: 5}\n", 1, '"<<" stands twice, or brings what is no map'),
        (b"a: " + b"[" * 500 + b"]" * 500, 1, "levels deep"),
        (b"\xff\xfea\x00:\x00", 1, "the file is UTF-16, not UTF-8"),
        (b"\xfe\xff\x00a", 1, "the file is UTF-16, not UTF-8"),
        (b"ok: 1\nbad: \xe4\n", 2, "byte 0xe4 is not UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00", 1, "cannot stand in YAML as it is"),
        (b"\x00" * 64, 1, "cannot stand in YAML as it is"),
        (b"- 1\n- 2\n", 1, "is no manifest: a mapping"),
        (b"just text", 1, "is no manifest: a mapping"),
        (b"kind: Pod\n", 1, "is no manifest: apiVersion must be text"),
        (b"%YAML 1.1\n---\na: b\n", 1, "directive"),
        (b"a: !!python/object:os.system {}\n", 1, "the tag"),
        (b'{"apiVersion": "v1", "kind": "Pod",}}', 1, ""),
        (b"apiVersion: v1\nkind: List\nitems:\n  - 5\n  - kind: Pod\n", 4, "is no manifest: a mapping"),
    ],
)
def test_what_is_broken_is_told_with_its_line_and_the_rest_is_judged(raw, line, message, empty, capsys):
    Path("broken.yaml").write_bytes(raw)
    Path("web.yaml").write_text(GOOD)
    unread, count = findings(capsys, "broken.yaml", "web.yaml")
    assert count == 1
    assert unread[0][:2] == ("broken.yaml", line)
    assert message in unread[0][2]
    assert all(remedy for *_, remedy in unread)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + GOOD,
        GOOD.replace("\n", "\r\n"),
        f"---\n# only a comment\n---\n{GOOD}---\n...\n---\n",
        f"# a comment\n{GOOD}",
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node"}]}),
        "apiVersion: v1\nkind: ServiceAccountList\nitems:\n  - metadata: {name: web, namespace: shop}\n",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items: [{apiVersion: v1, kind: Node}]\n",
        f"{GOOD}---\napiVersion: v1\nkind: List\nitems:\n---\napiVersion: v1\nkind: List\nitems: []\n",
    ],
    ids=["BOM", "CRLF", "empty documents", "comment", "JSON list", "typed list", "list in a list", "empty lists"],
)
def test_what_is_odd_and_legal_is_read(text, empty, capsys):
    Path("web.yaml").write_text(text, newline="")
    assert findings(capsys, "web.yaml") == ([], 1)


def test_aliases_and_merge_keys_of_others_are_read_as_go_reads_them(empty, capsys):
    Path("web.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  namespace: shop\n"
        "  labels: &labels {app: web}\n  annotations:\n    <<: *labels\n    mode: *mode\n".replace("*mode", "plain")
        + "data: {anchor: &text hello, again: *text, truth: yes}\n"
    )
    unread, count = findings(capsys, "web.yaml")
    assert (unread, count) == ([], 1)
    main(["check", "--kubeconform", "off", "--format", "json", "web.yaml"])
    found = json.loads(capsys.readouterr().out)["findings"]
    # The cluster takes yes for true, and a ConfigMap holds text.
    (one,) = [one for one in found if one["policy"] == "schema-valid"]
    assert (one["pointer"], one["source"]["line"]) == ("/data/truth", 10)


def test_a_mode_in_octal_is_what_it_is_for_the_cluster(empty, capsys):
    Path("web.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\nspec:\n  containers: []\n"
        "  volumes: [{name: a, configMap: {name: a, defaultMode: 0999}}]\n"
    )
    main(["check", "--kubeconform", "off", "--format", "json", "web.yaml"])
    assert "yaml-readable" not in capsys.readouterr().out


def test_a_bomb_of_aliases_is_told_and_never_unfolded(empty, capsys):
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 60))
    Path("bomb.yaml").write_text(f"a0: &a0 [x]\n{levels}\n")
    _, line, message, _ = only(capsys, "bomb.yaml")
    assert (line, message.partition(": ")[2]) == (6, "the aliases of this file stand for more than 100,000 values")


@pytest.mark.parametrize("name", ["templates/web.yaml", "values.yaml", "Chart.yaml"])
def test_templates_of_helm_are_told_to_be_rendered_first(name, empty, capsys):
    Path("chart/templates").mkdir(parents=True)
    text = (
        "apiVersion: v2\nname: web\n"
        if name != "templates/web.yaml"
        else "{{- if .Values.x }}\nkind: Pod\n{{- end }}\n"
    )
    Path("chart", name).write_text(text)
    ((file, _, _, remedy),), _ = findings(capsys, "chart")
    assert file == f"chart/{name}"
    assert "`helm template NAME CHART | paperclip-gitops check -`" in remedy


def test_text_in_double_braces_is_no_template(empty, capsys):
    Path("web.yaml").write_text(GOOD.replace("metadata:", "metadata:\n  annotations: {a: '{{ .b }}'}"))
    assert findings(capsys, "web.yaml") == ([], 1)


def test_a_file_that_is_too_large_is_told_and_not_read(empty, capsys, monkeypatch):
    with Path("huge.yaml").open("wb") as file:
        file.truncate(40 << 30)
    file, _, message, _ = only(capsys, "huge.yaml")
    assert (file, message) == ("huge.yaml", "has 42,949,672,960 bytes; at most 16,777,216 are read")
    monkeypatch.setattr(manifests, "_LARGEST", 100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode() * 9)))
    assert "at most 100 are read" in only(capsys, "-")[2]


def test_a_file_that_goes_away_between_listing_and_reading_is_told(empty, capsys, monkeypatch):
    Path("a").mkdir()
    for name in ("one", "two"):
        Path(f"a/{name}.yaml").write_text(GOOD.replace("web", name))
    listed = manifests._files

    def then_gone(folder, batch):
        files = list(listed(folder, batch))
        Path("a/one.yaml").unlink()
        return iter(files)

    monkeypatch.setattr(manifests, "_files", then_gone)
    assert only(capsys, "a") == ("a/one.yaml", 0, "cannot be read: No such file or directory", 1)


@pytest.mark.parametrize("what", ["open", "iterdir"])
def test_what_may_not_be_read_is_told(what, empty, capsys, monkeypatch):
    """By a refusal of the system that does not depend on who runs the tests: root may read everything."""
    Path("a/b").mkdir(parents=True)
    Path("a/one.yaml").write_text(GOOD)
    Path("a/b/two.yaml").write_text(GOOD.replace("web", "two"))
    real = getattr(Path, what)

    def refused(path, *arguments, **named):
        if path.name in {"two.yaml", "b"}:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(Path, what, refused)
    file, _, message, count = only(capsys, "a")
    assert count == 1
    assert file == ("a/b/two.yaml" if what == "open" else "a/b")
    assert message.endswith("cannot be read: Permission denied")


def test_folders_links_loops_and_pipes_with_the_name_of_a_manifest(empty, capsys):
    Path("a/web.yaml").mkdir(parents=True)
    Path("a/web.yaml/inner.yml").write_text(GOOD)
    Path("a/loop").symlink_to(".", target_is_directory=True)
    Path("a/self.yaml").symlink_to("self.yaml")
    Path("a/gone.yaml").symlink_to("nowhere.yaml")
    Path("a/twin.yaml").symlink_to("web.yaml/inner.yml")
    Path("elsewhere").mkdir()
    Path("elsewhere/other.yaml").write_text(GOOD.replace("web", "other"))
    Path("a/linked").symlink_to("../elsewhere", target_is_directory=True)
    os.mkfifo("a/pipe.yaml")
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind("a/plug.yaml")
        unread, count = findings(capsys, "a")
    assert count == 2
    assert {(file, message) for file, _, message, _ in unread} == {
        ("a/self.yaml", "cannot be read: Too many levels of symbolic links"),
        ("a/gone.yaml", "cannot be read: No such file or directory"),
        ("a/pipe.yaml", "is no regular file"),
        ("a/plug.yaml", "is no regular file"),
    }


def test_a_pipe_that_is_named_is_read(empty, capsys):
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text(GOOD))
    writer.start()
    assert findings(capsys, "pipe") == ([], 1)
    writer.join()


def test_a_name_that_is_no_text_is_shown_and_ends_nothing(empty, capsysbinary):
    Path(os.fsdecode(b"od\xffd\x1b[31m.yaml")).write_text("a: [")
    for form in ("text", "json", "sarif", "junit", "github", "markdown"):
        assert main(["check", ".", "--kubeconform", "off", "--format", form]) == 1
        said = capsysbinary.readouterr()
        assert any(shown in said.out for shown in (b"\\xffd", b"%5Cxff", b"&#92;xff"))
        if form in {"text", "markdown"}:
            assert b"\x1b" not in said.out


def test_numbers_that_no_cluster_can_hold(empty, capsys):
    Path("a.yaml").write_text(GOOD + "odd: .inf\n")
    assert only(capsys, "a.yaml")[2] == "line 7, column 6: a number that is not finite has no form in JSON"
    Path("a.yaml").write_text(GOOD + "large: 123456789012345678901234567890\nlarger: 18446744073709551615\n")
    assert findings(capsys, "a.yaml") == ([], 1)


def test_what_our_writer_cannot_write_is_told_where_kubeconform_would_have_read_it(empty, capsys):
    binary = needed.kubeconform()
    Path(".tools/bin").mkdir(parents=True)
    shutil.copy(binary, ".tools/bin/kubeconform")
    # Beyond 63 bits: Go reads it, and shows it as a float.
    Path("a.yaml").write_text(
        "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: b}\n"
        "spec: {large: 18446744073709551615}\n"
    )
    Path("b.yaml").write_text(GOOD)
    Path("schemas/example.com").mkdir(parents=True)
    Path("schemas/example.com/thing_v1.json").write_text(
        '{"type": "object", "properties": {"spec": {"type": "object", "properties": {"large": {"type": "integer"}}}}}'
    )
    main(["check", "a.yaml", "b.yaml", "--crd-schemas", "schemas", "--kubeconform", "require", "--format", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    (one,) = [one for one in found if one["policy"] == "yaml-go-safe"]
    assert one["object"]["kind"] == "Thing"
    assert "beyond 64 bits" in one["message"]


def test_one_file_by_two_names_is_one_file(empty, capsys):
    Path("a").mkdir()
    Path("a/web.yaml").write_text(GOOD)
    assert findings(capsys, "a", "a/web.yaml", "./a/../a") == ([], 1)


def test_job_templates_of_dist_that_cannot_be_filled_are_findings(project, capsys):
    Path("dist/minimal/job-templates/broken.yaml").write_text("a: [")
    file, line, message, _ = only(capsys, "dist/minimal")
    assert (file, line) == ("dist/minimal/job-templates/broken.yaml", 1)
    assert "a value is missing here" in message
    Path("dist/minimal/job-templates/broken.yaml").write_text("a: b")
    assert 'must be a map of "name"' in only(capsys, "dist/minimal")[2]
    Path("dist/minimal/job-templates/broken.yaml").unlink()
    Path("dist/minimal/job-templates/contract.yaml").unlink()
    assert "contract.yaml" in only(capsys, "dist/minimal")[2]


def test_an_empty_folder_is_wrong_use_and_so_is_one_of_other_files(empty, capsys):
    Path("a").mkdir()
    Path("a/README.md").write_text("# hello")
    Path("a/kustomization.yaml").write_text("resources: []\n")
    assert main(["check", "a"]) == 2
    assert "there is nothing to check" in capsys.readouterr().err


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_whatever_stop_it(raw, empty, capsys):
    Path("any.yaml").write_bytes(raw)
    code = main(["check", "any.yaml", "--kubeconform", "off"])
    said = capsys.readouterr()
    assert code in {0, 1, 2}
    assert code == 0 or said.out or said.err
    assert "Traceback" not in said.err
