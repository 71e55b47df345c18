"""Where a value comes from: found by tracing, and true when the config is changed."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from charts_py import images, render, tracing
from charts_py.cli.main import main
from charts_py.config.environment import Environment
from charts_py.config.load import load_environment
from charts_py.config.workload import Container, EnvironmentVariable
from charts_py.errors import UsageError
from charts_py.explain import find, pointer_of, workshops
from kubekit import pointers

ROOT = Path(__file__).resolve().parents[2]
LOCK = images.ImageLock()
SHIPPED = ("frank-2026-08", "minimal", "operating-post")


def workshop(name):
    (found,) = workshops(ROOT / "environments", (name,), LOCK, ROOT / "templates")
    return found


def answer(environment, target, path):
    """[(pointer, value, verbatim, names of the fields)]"""
    found, made = find(target, [workshop(environment)])
    answered = found.answer(made, pointer_of(made.manifest, path))
    return [(one.pointer, one.value, one.verbatim, [use.name for use in one.fields]) for one in answered.leaves]


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_explained_is_what_is_rendered(name):
    config = load_environment(ROOT / "environments" / f"{name}.yaml").config
    rendered = render.render(config, LOCK, ROOT / "templates")
    made = {(one.construct, f"{name}/{one.path}"): one.manifest for one in rendered.objects}
    assert {(one.construct, one.file): one.manifest for one in workshop(name).made} == made


@pytest.mark.parametrize("name", SHIPPED)
def test_every_value_that_knows_its_field_has_the_value_of_that_field(name):
    explained = workshop(name)
    count = 0
    for made in explained.made:
        for _, value in pointers.walk(made.manifest):
            origin = tracing.origin_of(value)
            if origin is not None:
                count += 1
                assert tracing.value_at(explained.config.model, origin) == value
    assert count > 80


def test_a_value_that_was_passed_on_is_its_field():
    assert answer("minimal", "Deployment/paperclip", "spec.template.spec.containers[0].image") == [
        (
            "/spec/template/spec/containers/0/image",
            "ghcr.io/paperclipai/paperclip:sha-d554c47",
            True,
            ["server.image"],
        ),
    ]


def test_a_value_that_was_put_together_names_exactly_its_fields():
    ((_, value, verbatim, fields),) = answer(
        "operating-post", "Deployment/paperclip", "spec.template.spec.containers[paperclip].env[DATABASE_URL].value"
    )
    assert value.startswith("postgres://paperclip:$(PG_PASSWORD)@paperclip-db-postgresql.paperclip-system.svc")
    assert not verbatim
    assert fields == ["database.database", "database.release", "database.username", "namespace.name"]


def test_true_or_false_is_traced_too():
    assert answer("minimal", "Deployment/paperclip", "spec.template.spec.automountServiceAccountToken") == [
        ("/spec/template/spec/automountServiceAccountToken", True, False, ["launcher.enabled", "launcher.sidecar"]),
    ]
    ((_, value, _, fields),) = answer(
        "frank-2026-08", "Deployment/paperclip", "spec.template.spec.containers[0].volumeMounts[1].readOnly"
    )
    assert (value, fields) == (True, ["server.mounts[0].readOnly"])


def test_a_field_behind_a_model_that_the_construct_makes_itself():
    """The database's Secret is a SecretSpec made by the construct; pydantic took the traced values through."""
    ((_, value, verbatim, fields),) = answer(
        "operating-post", "ExternalSecret/paperclip-db-auth", "spec.data[0].remoteRef.key"
    )
    assert (value, verbatim, fields) == ("PAPERCLIP_DB_PASSWORD", True, ["database.passwordEntries[0].remote"])


def test_a_value_that_no_field_changes_is_the_constructs_own():
    assert answer("minimal", "Deployment/paperclip", "/spec/strategy/type") == [
        ("/spec/strategy/type", "Recreate", False, []),
    ]


def test_a_list_that_grows_does_not_blame_its_neighbours():
    leaves = answer("operating-post", "Deployment/paperclip", "spec.template.spec.containers[0].envFrom")
    assert leaves[-1] == (
        "/spec/template/spec/containers/0/envFrom/3/secretRef/optional",
        True,
        False,
        ["server.secrets[2].optional", "server.secrets[2].use"],
    )


def test_what_decides_whether_the_object_is_there_stands_apart():
    found, made = find("AppProject/paperclip", [workshop("operating-post")])
    answered = found.answer(made, "/spec/description")
    assert [use.name for use in answered.conditions] == ["argocd.renderProject"]
    assert [use.name for use in answered.leaves[0].fields] == ["name"]


def test_the_job_templates_depend_on_what_they_are_made_from():
    ((_, _, _, fields),) = answer("minimal", "ConfigMap/paperclip-job-templates", 'data["claude.json"]')
    assert "agents.jobs.kinds[0].image" in fields
    assert "server.publicUrl" not in fields


def test_a_digest_comes_from_the_lock():
    digest = "sha256:" + "1" * 64
    image = "ghcr.io/paperclipai/paperclip:sha-d554c47"
    lock = images.ImageLock((images.LockedImage(image, digest),), "images.lock")
    (found,) = workshops(ROOT / "environments", ("minimal",), lock, ROOT / "templates")
    _, made = find("Deployment/paperclip", [found])
    (leaf,) = found.answer(made, "/spec/template/spec/containers/0/image").leaves
    assert leaf.value == f"{image}@{digest}"
    assert not leaf.verbatim
    assert [(use.name, use.place) for use in leaf.fields][1] == ("the digest", "images.lock")
    assert leaf.fields[0].name == "server.image"


def test_the_fleet_is_explained_too():
    found = workshops(ROOT / "environments", (), LOCK, ROOT / "templates")
    (fleet, made) = find("ApplicationSet/paperclip", found)
    assert made.construct == "applicationset"
    assert made.file == "_fleet/applicationset/applicationset-paperclip.yaml"
    (leaf,) = fleet.answer(made, "/spec/template/spec/source/repoURL").leaves
    assert [use.name for use in leaf.fields] == ["argocd.repository"]


def test_the_fields_that_are_named_and_only_they_change_the_value_in_a_real_rendering():
    explained = workshop("operating-post")
    _, made = find("Deployment/paperclip", [explained])
    pointer = pointer_of(made.manifest, "spec.template.spec.containers[0].env[1].value")
    (leaf,) = explained.answer(made, pointer).leaves
    model = explained.config.model

    def rendered(config):
        (found,) = [
            one.manifest
            for one in render.render(config, LOCK, ROOT / "templates").objects
            if one.id.kind == "Deployment"
        ]
        return pointers.get(found, pointer)

    changing = set()
    for path in made.reads:
        if path[0] in {"database", "namespace", "cluster"} and path[-1] != "kind":
            value = next(iter(tracing.variations(model, path)))
            if rendered(tracing.replaced(model, path, value)) != leaf.value:
                changing.add(".".join(path))
    assert changing == {use.name for use in leaf.fields}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_value_is_verbatim_only_if_it_is_that_of_its_one_field(name):
    explained = workshop(name)
    for made in [one for one in explained.made if one.id.kind in {"Deployment", "ConfigMap", "Service"}][:4]:
        for leaf in explained.answer(made, "").leaves:
            if leaf.verbatim:
                (use,) = leaf.fields
                assert leaf.value == use.value


def test_what_has_no_such_name_is_said_with_what_is_there():
    with pytest.raises(UsageError) as caught:
        find("Deployment/papercli", [workshop("minimal")])
    assert caught.value.message == "there is no object 'Deployment/papercli'"
    assert caught.value.remedy == "did you mean Deployment/paperclip? known: Deployment/paperclip"


def test_a_kind_that_is_not_there_lists_everything():
    with pytest.raises(UsageError) as caught:
        find("Ingress/paperclip", [workshop("minimal")])
    assert "Namespace/paperclip-system" in caught.value.remedy


def test_a_name_of_several_environments_asks_which():
    found = workshops(ROOT / "environments", (), LOCK, ROOT / "templates")
    with pytest.raises(UsageError) as caught:
        find("Deployment/paperclip", found)
    assert (
        caught.value.message == "Deployment/paperclip stands in 3 environments: frank-2026-08, minimal, operating-post"
    )
    assert caught.value.remedy == "say which: --environment frank-2026-08"


def test_a_name_of_two_namespaces_asks_which():
    with pytest.raises(UsageError) as caught:
        find("NetworkPolicy/default-deny", [workshop("minimal")])
    assert "NetworkPolicy/paperclip-agents/default-deny" in caught.value.remedy
    _, made = find("networkpolicy/paperclip-agents/default-deny", [workshop("minimal")])
    assert made.id.namespace == "paperclip-agents"


TREE = {
    "metadata": {"labels": {"app.kubernetes.io/name": "a", "app": "b"}},
    "spec": {"ports": [{"name": "http", "port": 1}], "a/b": {"~": 0}},
}


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/spec/ports/0/port", "/spec/ports/0/port"),
        ("spec.ports[0].port", "/spec/ports/0/port"),
        ("spec.ports[http].port", "/spec/ports/0/port"),
        ("spec.ports.0.port", "/spec/ports/0/port"),
        ("metadata.labels.app.kubernetes.io/name", "/metadata/labels/app.kubernetes.io~1name"),
        ('metadata.labels["app.kubernetes.io/name"]', "/metadata/labels/app.kubernetes.io~1name"),
        ("metadata.labels.app", "/metadata/labels/app"),
        ("spec.a/b.~", "/spec/a~1b/~0"),
        ("spec", "/spec"),
    ],
)
def test_a_path_may_be_written_in_many_ways(path, pointer):
    assert pointer_of(TREE, path) == pointer


@pytest.mark.parametrize(
    ("path", "message", "remedy"),
    [
        ("spec.port", "/spec has no 'port'", "did you mean 'ports'? there: ports, a/b"),
        ("spec.ports[7]", "/spec/ports has no '7'", "it has 1 entries"),
        ("spec..ports", "/spec has no ''", "there: ports, a/b"),
        ("spec.ports[0", "/spec/ports has no", ""),
        ("spec.ports[0].port.x", "/spec/ports/0/port has no 'x'", ""),
        ("/spec/none", "nothing stands at '/spec/none'", "leave the path out to see the whole object"),
        ("x", "the object has no 'x'", "there: metadata, spec"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(path, message, remedy):
    if path == "spec.ports[0":
        assert pointer_of(TREE, path) == "/spec/ports/0"
        return
    with pytest.raises(UsageError) as caught:
        pointer_of(TREE, path)
    assert message in caught.value.message
    assert caught.value.remedy == remedy


def minimal():
    return load_environment(ROOT / "environments" / "minimal.yaml").config


def test_a_traced_config_is_read_like_the_real_one():
    recorder = tracing.Recorder()
    traced = recorder.trace(minimal())
    assert isinstance(traced, Environment)
    assert traced.server.image == minimal().server.image
    assert traced.launcher.enabled is True
    assert traced.cluster.cilium is None
    assert [one.name for one in traced.agents.jobs.kinds] == ["claude"]
    assert recorder.reads == [
        ("server", "image"),
        ("launcher", "enabled"),
        ("cluster", "cilium"),
        ("agents", "jobs", "kinds", "0", "name"),
    ]


def test_methods_and_properties_of_a_traced_model_read_through_it():
    config = load_environment(ROOT / "environments" / "operating-post.yaml").config
    recorder = tracing.Recorder()
    traced = recorder.trace(config)
    assert traced.database.image.text == config.database.image.text
    assert ("database", "image", "registry") in recorder.reads
    frank = load_environment(ROOT / "environments" / "frank-2026-08.yaml").config
    port = tracing.Recorder().trace(frank).server.sidecars[0].ports[0]
    assert port.expand() == (("ssh", 2222),)
    with pytest.raises(AttributeError):
        _ = traced.no_such_field


def test_a_traced_value_is_copied_with_its_origin():
    traced = tracing.Recorder().trace(minimal())
    for value in (traced.server.image, traced.agents.jobs.user):
        again = copy.deepcopy(value)
        assert again == value
        assert tracing.origin_of(again) == tracing.origin_of(value)
        assert json.loads(json.dumps(value)) == value


def test_one_field_is_replaced_and_the_rest_is_the_same():
    config = minimal()
    changed = tracing.replaced(config, ("agents", "jobs", "kinds", "0", "image"), "other:1")
    assert changed.agents.jobs.kinds[0].image == "other:1"
    assert config.agents.jobs.kinds[0].image != "other:1"
    assert tracing.replaced(changed, ("agents", "jobs", "kinds", "0", "image"), config.server.image) == config


@pytest.mark.parametrize("name", SHIPPED)
def test_every_field_that_is_read_can_be_varied_within_its_type(name):
    """A variation is another value, and its own type takes it."""
    explained = workshop(name)
    paths = {path for made in explained.made for path in made.reads}
    unvaried = set()
    for path in paths:
        current = tracing.value_at(explained.config.model, path)
        found = list(tracing.variations(explained.config.model, path))
        assert current not in found
        if not found:
            unvaried.add(path[-1])
    assert unvaried <= {"kind", "apiVersion"}, unvaried


def test_samples_fit_the_types_they_are_used_for():
    made = tracing._sample(Container)
    assert made.name
    TypeAdapter(EnvironmentVariable.model_fields["name"].annotation).validate_python("example")


def test_the_object_is_shown_with_its_construct_file_and_fields(project, capsys):
    assert main(["explain", "Deployment/paperclip", "--environment", "minimal"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "Deployment paperclip-system/paperclip of minimal"
    assert "construct  paperclip-system/server/deployment-paperclip (charts_py/constructs/server.py:" in lines[1]
    assert lines[2] == "  file       dist/minimal/paperclip-system/deployment-paperclip.yaml"
    rows = [line.split() for line in lines]
    assert ["server.image", "ghcr.io/paperclipai/paperclip:sha-d554c47", "environments/minimal.yaml:10"] in rows
    assert ["namespace.name", "paperclip-system", "default"] in rows
    assert "explain Deployment/paperclip PATH" in printed.err


def test_a_value_is_shown_with_its_field_and_line(project, capsys):
    arguments = ["explain", "PersistentVolumeClaim/paperclip-data", "spec.resources", "--environment", "frank-2026-08"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert (
        "/spec/resources/requests/storage = 10Gi\n  is server.storage.size  10Gi  environments/frank-2026-08.yaml:"
        in out
    )


def test_a_script_gets_it_as_json(project, capsys):
    assert (
        main(["explain", "Deployment/paperclip", "spec.replicas", "--environment", "minimal", "--format", "json"]) == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "Explanation"
    assert document["values"] == [{"pointer": "/spec/replicas", "value": 1, "verbatim": False, "fields": []}]
    assert main(["explain", "Deployment/paperclip", "--environment", "minimal", "--format", "json"]) == 0
    fields = json.loads(capsys.readouterr().out)["fields"]
    assert {"field": "launcher.enabled", "value": True, "place": "default"} in fields


def test_a_policy_says_what_it_wants_and_why(empty_folder, capsys):
    assert main(["explain", "image-no-floating-tag"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("image-no-floating-tag: No image follows `latest`\n")
    for word in ("severity  error", "why ", "mend ", "cannot be waived"):
        assert word in out
    assert main(["explain", "schema-valid", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["waivable"] is False


def test_a_policy_that_there_is_not_has_a_neighbour(empty_folder, capsys):
    assert main(["explain", "image-digst"]) == 2
    said = capsys.readouterr().err
    assert "there is no policy 'image-digst'" in said
    assert "did you mean image-digest?" in said
    assert "an object is written Kind/name" in said


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
