"""Policies over documents, which no fixture shows: each is made to happen here, and shown not to."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from pathlib import Path

import pytest

from charts_py.cli.main import main
from kubekit import yamlread
from policies.documents.declared import stale_externals
from policies.documents.served import RETIRED
from policies.facts import external_of, with_declared
from policies.model import Source
from policies.registry import all_policies, by_id
from policies.schemas.builtin import builtin_schemas
from policies.world import World
from tests.support import fixtures

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: web
  namespace: shop
automountServiceAccountToken: false
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project as shipped, with one more manifest, as the working directory."""
    for name in ("environments", "templates", "dist"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "images.lock", tmp_path)
    # Alive on every day on which this runs.
    soon = datetime.datetime.now(tz=datetime.UTC).date() + datetime.timedelta(days=30)
    waivers = (ROOT / "waivers.yaml").read_text()
    (tmp_path / "waivers.yaml").write_text(re.sub(r'expires: "[^"]+"', f'expires: "{soon}"', waivers))
    (tmp_path / "web.yaml").write_text(ACCOUNT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def found(capsys, *arguments):
    """The ids of what check finds."""
    main(["check", "--kubeconform", "off", "--format", "json", *arguments])
    return {one["policy"] for one in json.loads(capsys.readouterr().out)["findings"]}


def stale(capsys):
    code = main(["synth", "--check", "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    return {document["policy"]} if code and not document["clean"] else set()


def waiver(expires):
    Path("waivers.yaml").write_text(
        "waivers:\n  - policy: image-digest\n    object: Pod/shop/web\n    reason: so\n    owner: me\n"
        f'    expires: "{expires}"\n'
    )


def edit(path, old, new):
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new, 1))


def broken_template():
    Path("dist/minimal/job-templates/job.yaml").write_text(
        "name: job\njob: {kind: Job, spec: $(no_such_placeholder)}\n"
    )


CLAIM = "dist/minimal/paperclip-system/persistentvolumeclaim-paperclip-data.yaml"
# Policy: (what makes it pass, what makes it fail, who finds it).
TABLE = {
    "schema-valid": (lambda: None, lambda: edit("web.yaml", "false", "5"), lambda c: found(c, "web.yaml")),
    "yaml-readable": (
        lambda: None,
        lambda: edit("web.yaml", "kind: ", "kind ServiceAccount"),
        lambda c: found(c, "web.yaml"),
    ),
    "waiver-live": (lambda: None, lambda: waiver("2020-01-01"), lambda c: found(c, "web.yaml")),
    "dist-canonical": (
        lambda: None,
        lambda: edit(CLAIM, "  - ReadWriteOnce", "    - ReadWriteOnce"),
        lambda c: found(c, "dist/minimal"),
    ),
    "jobtemplate-complete": (lambda: None, broken_template, lambda c: found(c, "dist/minimal")),
    "external-live": (
        lambda: None,
        lambda: edit(
            "environments/minimal.yaml", "kind: Environment", "kind: Environment\nchecks: {externals: [Secret/a/b]}"
        ),
        lambda c: found(c, "dist/minimal"),
    ),
    "dist-clean": (
        lambda: shutil.rmtree("dist") or main(["synth"]),
        lambda: shutil.rmtree("dist") or main(["synth"]) or edit(CLAIM, "ReadWriteOnce", "ReadWriteMany"),
        stale,
    ),
    # The writer is held against Go and against what it has written at every synth: only a defect of it shows this.
    "yaml-go-safe": (lambda: None, None, None),
}


@pytest.mark.parametrize("policy", [name for name, row in TABLE.items() if row[2]])
def test_it_holds_for_what_is_right_and_not_for_what_is_wrong(policy, folder, capsys):
    right, wrong, find = TABLE[policy]
    if "checks:" in Path("environments/minimal.yaml").read_text() and policy == "external-live":
        pytest.fail("the shipped config has checks of its own now: edit them instead")
    right()
    capsys.readouterr()
    assert policy not in find(capsys)
    wrong()
    capsys.readouterr()
    assert policy in find(capsys)


def test_what_reads_back_as_another_object_is_found(monkeypatch):
    from charts_py import checks

    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "no"}}
    placed = [(manifest, Source("a.yaml"))]
    text = "apiVersion: v1\ndata:\n  a: 'no'\nkind: ConfigMap\nmetadata: {name: a}\n"
    assert list(checks._unread(placed, [text])) == []
    (one,) = checks._unread(placed, [text.replace("'no'", "2")])
    assert one.policy == "yaml-go-safe"


def test_every_policy_without_a_function_is_made_to_happen_here():
    assert {one.id for one in all_policies() if one.check is None} == set(TABLE)


class TestExternals:
    def stale(self, *declared):
        objects, known = fixtures.base()
        known = with_declared(known, tuple(external_of(text) for text in declared))
        return [
            one.message for one in stale_externals(World([(one, None) for one in objects], known), Source("e.yaml"))
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "Namespace/litellm",
            "Secret/paperclip-system/paperclip-auth",
            "Service/litellm/litellm",
            "ClusterSecretStore/infisical",
            "StorageClass/longhorn",
        ],
    )
    def test_what_the_set_refers_to_is_alive(self, text):
        assert self.stale(text) == []

    @pytest.mark.parametrize("text", ["Namespace/old", "Secret/other/paperclip-auth", "Service/litellm/other"])
    def test_what_nothing_refers_to_is_stale(self, text):
        assert self.stale(text) == [f"{text} is declared to be made elsewhere, and nothing in this set refers to it"]

    def test_facts_of_a_cluster_may_name_more_than_one_set_needs(self):
        assert self.stale() == []


class TestRetired:
    @pytest.mark.parametrize("minor", range(29, 38))
    def test_the_table_and_the_schemas_of_each_version_agree(self, minor):
        """What we call removed has no schema in that version, and what is still served has one."""
        known = set(builtin_schemas(f"1.{minor}", None).kinds())
        about_to_go = {place for place, one in RETIRED.items() if one.deprecated <= minor < one.removed}
        gone = {place for place, one in RETIRED.items() if one.removed <= minor}
        assert about_to_go <= known
        assert gone & known == set()

    def test_every_entry_is_deprecated_before_it_is_removed_and_names_a_successor(self):
        for retired in RETIRED.values():
            assert retired.deprecated < retired.removed
            assert retired.successor


def test_the_page_of_all_policies_is_current():
    """`UPDATE_SNAPSHOTS=1` writes it, and so does `paperclip-gitops explain --all --format markdown`."""
    import os

    from charts_py import policybook

    path = ROOT / "docs" / "policies.md"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(policybook.page())
    assert path.read_text() == policybook.page()
    assert all(f"\n## {policy}\n" in path.read_text() for policy in by_id())


def test_examples_are_readable_yaml():
    from charts_py import policybook

    for policy in all_policies():
        shown = policybook.examples(policy.id)
        for text in (shown.passes, shown.fails):
            yamlread.read_all(text, policy.id)
            assert "# finds:" not in text
