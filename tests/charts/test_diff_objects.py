from __future__ import annotations

import json
from typing import Any

import pytest

from charts_py.diff import report
from charts_py.diff.errors import DiffError
from charts_py.diff.objects import ObjectChange, object_changes
from kubekit import yamlwrite


def config_map(name: str, version: str = "v1", **data: Any) -> bytes:
    tree = {
        "apiVersion": version,
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n"},
        "data": data,
    }
    return yamlwrite.dump(tree).encode()


def happened(changes: list[ObjectChange]) -> list[tuple[str, str]]:
    return [(change.happened, change.path) for change in changes]


def test_added_removed_and_changed_objects_are_found_by_identity() -> None:
    old = {"prod/s/configmap-a.yaml": config_map("a", x="1"), "prod/s/configmap-b.yaml": config_map("b")}
    new = {"prod/s/configmap-a.yaml": config_map("a", x="2"), "prod/s/configmap-c.yaml": config_map("c")}

    assert happened(object_changes(old, new)) == [
        ("changed", "s/configmap-a.yaml"),
        ("removed", "s/configmap-b.yaml"),
        ("added", "s/configmap-c.yaml"),
    ]


def test_a_moved_file_is_no_removal() -> None:
    old, new = {"prod/s/configmap-a.yaml": config_map("a")}, {"prod/t/configmap-a.yaml": config_map("a")}

    (change,) = object_changes(old, new)

    assert (change.happened, change.old_path, change.path) == (
        "moved",
        "s/configmap-a.yaml",
        "t/configmap-a.yaml",
    )
    assert report.summary([change]) == "0 changed, 0 added, 0 removed, 1 moved"


def test_another_version_of_the_same_group_is_a_change_and_another_group_is_not() -> None:
    def policy(api_version: str) -> dict[str, bytes]:
        tree = {"apiVersion": api_version, "kind": "X", "metadata": {"name": "a"}}
        return {"prod/s/x-a.yaml": yamlwrite.dump(tree).encode()}

    (change,) = object_changes(policy("g.io/v1alpha1"), policy("g.io/v1"))
    assert [(field.pointer, field.old, field.new) for field in change.fields] == [
        ("/apiVersion", "g.io/v1alpha1", "g.io/v1")
    ]
    assert [item[0] for item in happened(object_changes(policy("g.io/v1"), policy("h.io/v1")))] == [
        "removed",
        "added",
    ]


def test_the_same_object_in_two_environments_is_two_objects() -> None:
    old = {"lab/s/configmap-a.yaml": config_map("a")}

    assert [change.environment for change in object_changes(old, {"prod/s/configmap-a.yaml": config_map("a")})] == [
        "lab",
        "prod",
    ]


def test_another_way_of_writing_the_same_is_no_change() -> None:
    new = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "data": {}, "metadata": {"namespace": "n", "name": "a"}})

    assert object_changes({"prod/s/a-a.yaml": config_map("a")}, {"prod/s/a-a.yaml": new.encode()}) == []


def test_several_documents_lists_and_empty_ones_are_read() -> None:
    parts = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in "abc"]
    text = f"---\n{json.dumps(parts[0])}\n---\n# nothing\n---\n" + json.dumps({"kind": "List", "items": parts[1:]})

    changes = object_changes({}, {"prod/s/all.yaml": text.encode()})

    assert [change.identity.name for change in changes] == ["a", "b", "c"]


def test_an_object_given_twice_is_not_lost() -> None:
    old = {"prod/s/a-1.yaml": config_map("a", x="1"), "prod/s/a-2.yaml": config_map("a", x="2")}
    new = {**old, "prod/s/a-2.yaml": config_map("a", x="3")}

    assert happened(object_changes(old, {})) == [("removed", "s/a-1.yaml"), ("removed", "s/a-2.yaml")]
    assert happened(object_changes(old, new)) == [("changed", "s/a-2.yaml")]


def test_templates_and_values_are_compared_as_files() -> None:
    old = {"prod/job-templates/a.yaml": config_map("same"), "prod/paperclip-db/values.yaml": b"a: 1\n"}
    new = {"prod/job-templates/b.yaml": config_map("same"), "prod/paperclip-db/values.yaml": b"a: 2\n"}

    changes = object_changes(old, new)

    assert [(change.happened, str(change.identity)) for change in changes] == [
        ("removed", "File job-templates/a.yaml"),
        ("added", "File job-templates/b.yaml"),
        ("changed", "File paperclip-db/values.yaml"),
    ]


def test_dates_and_keys_that_are_no_text_are_read_as_kubernetes_does() -> None:
    old, new = (
        {"prod/s/x-a.yaml": b"kind: X\nspec: {d: 2026-01-01, 8080: a}\n"},
        {"prod/s/x-a.yaml": b"kind: X\nspec: {}\n"},
    )

    (change,) = object_changes(old, new)

    assert [(field.pointer, field.old) for field in change.fields] == [
        ("/spec/d", "2026-01-01"),
        ("/spec/8080", "a"),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"a: 1\nb: [1\n", "prod/s/x-a.yaml:3:1"),
        (b"a: 1\n\tb: 2\n", "prod/s/x-a.yaml:2:1"),
        (b"a: *nothing\n", "prod/s/x-a.yaml:1:4"),
        (b"a: !!python/object/apply:os.system [id]\n", "prod/s/x-a.yaml:1:4"),
        (b"<<<<<<< HEAD\na: 1\n=======\n", "prod/s/x-a.yaml:2:2"),
        (b"a: \xff\n", "prod/s/x-a.yaml:1"),
        (b"a: \x00\n", "prod/s/x-a.yaml:1"),
    ],
)
def test_broken_yaml_is_located(text: bytes, place: str) -> None:
    with pytest.raises(DiffError) as caught:
        object_changes({}, {"prod/s/x-a.yaml": text})

    assert caught.value.message.startswith(f"{place}: no YAML: ")
    assert caught.value.exit_code == 2


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(DiffError, match="aliases"):
        object_changes({}, {"prod/s/x-a.yaml": "\n".join(lines).encode()})


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "a: &a [*a]\n"])
def test_trees_without_end_are_stopped(text: str) -> None:
    with pytest.raises(DiffError):
        object_changes({}, {"prod/s/x-a.yaml": text.encode()})


def test_the_text_names_environment_object_place_and_risk() -> None:
    def deployment(image: str, *names: str) -> bytes:
        containers = [{"name": name, "image": image} for name in names]
        tree = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "paperclip", "namespace": "paperclip-system"},
            "spec": {"template": {"spec": {"containers": containers}}},
        }
        return yamlwrite.dump(tree).encode()

    path = "prod/s/deployment-paperclip.yaml"
    changes = object_changes({path: deployment("a", "server")}, {path: deployment("b", "shell", "server")})

    assert report.text(changes).splitlines() == [
        "prod",
        "  ~ Deployment paperclip-system/paperclip  (s/deployment-paperclip.yaml)  [rolls pod]",
        '      /spec/template/spec/containers/0 [shell]: added {"name": "shell", "image": "b"}  [rolls pod]',
        '      /spec/template/spec/containers/1/image [server]: "a" → "b"  [rolls pod]',
        "      ! rolls pod: the pod template changed: its pods are replaced",
        "1 changed, 0 added, 0 removed; worst: rolls pod",
    ]


def test_longer_texts_are_shown_line_by_line() -> None:
    path = "prod/s/configmap-a.yaml"
    old, new = "a\nb\nc\nd\n", "a\nb\nx\nd\n"

    text = report.text(object_changes({path: config_map("a", f=old)}, {path: config_map("a", f=new)}))

    shown = ["/data/f: text changed", "  @@ -2,3 +2,3 @@", "   b", "  -c", "  +x", "   d"]
    assert "".join(f"      {line}\n" for line in shown) in text


def test_nothing_in_the_text_can_drive_a_terminal() -> None:
    path = "prod/s/configmap-a.yaml"
    nasty = "\x1b[31m\u202ered"

    text = report.text(object_changes({path: config_map("a", f="x")}, {path: config_map("a", f=nasty)}))

    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\u202e" in text


@pytest.mark.parametrize("limit", [1, 200, 400, 1000])
def test_a_limit_cuts_whole_lines_and_keeps_the_summary(limit: int) -> None:
    new = {f"prod/s/configmap-{n}.yaml": config_map(f"é{n}") for n in range(50)}
    changes = object_changes({}, new)

    text = report.text(changes, limit_bytes=limit)

    assert text.endswith("\n0 changed, 50 added, 0 removed\n")
    assert "more lines (--limit-bytes)" in text
    assert len(text.encode()) <= max(limit, 80)
    assert report.text(changes, limit_bytes=100_000) == report.text(changes)


def test_the_document_is_plain_json() -> None:
    changes = object_changes({}, {"prod/s/configmap-a.yaml": config_map("a")})

    document = json.loads(json.dumps(report.document(changes, "git:HEAD")))

    assert (document["apiVersion"], document["kind"]) == ("paperclip-gitops/v1", "Diff")
    assert document["summary"] == {"added": 1, "removed": 0, "changed": 0, "moved": 0, "worst": ""}
    assert document["changes"][0]["name"] == "a"
