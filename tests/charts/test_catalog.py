"""`schemas pull`: what arrives is what is pinned, whole, or nothing; a cluster gives what it serves."""

from __future__ import annotations

import argparse
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from charts_py import catalog
from charts_py.cachedir import cache_root
from charts_py.cli import schemas as verb
from charts_py.errors import ClusterUnreachable, ConfigError, GitopsError, ToolMissing, UsageError
from policies.schemas.crds import CrdSchemas
from tests.support import needed

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "example.io/widget_v1.json": b'{"type": "object"}',
    "example.io/gadget_v1alpha1.json": b'{"type": "object", "properties": {}}',
    "other.io/widget_v2.json": b'{"type": "object", "required": []}',
}
LOCK = catalog.Lock(COMMIT, {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()})
PUBLISHED = {
    "components": {
        "schemas": {
            "io.example.v1.Widget": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                "x-kubernetes-group-version-kind": [{"group": "example.io", "kind": "Widget", "version": "v1"}],
            },
            "io.example.v1.WidgetList": {
                "type": "object",
                "x-kubernetes-group-version-kind": [{"group": "example.io", "kind": "WidgetList", "version": "v1"}],
            },
        },
    },
}
INDEX = {
    "paths": {
        "api/v1": {},
        "apis/example.io": {},
        "apis/example.io/v1": {},
        "apis/other.io/v9": {},
        "version": {},
    }
}
ANSWERS = {
    "/openapi/v3": INDEX,
    "/openapi/v3/apis/example.io/v1": PUBLISHED,
    "/openapi/v3/apis/other.io/v9": {},
}
EMITTED = """
external-secrets.io/v1/ExternalSecret external-secrets.io/v1/ClusterSecretStore
cilium.io/v2/CiliumLoadBalancerIPPool cilium.io/v2alpha1/CiliumLoadBalancerIPPool
cilium.io/v2alpha1/CiliumL2AnnouncementPolicy cilium.io/v2/CiliumNetworkPolicy
argoproj.io/v1alpha1/Application argoproj.io/v1alpha1/AppProject argoproj.io/v1alpha1/ApplicationSet
postgresql.cnpg.io/v1/Cluster postgresql.cnpg.io/v1/ScheduledBackup postgresql.cnpg.io/v1/Backup
monitoring.coreos.com/v1/PodMonitor monitoring.coreos.com/v1/ServiceMonitor
monitoring.coreos.com/v1/PrometheusRule longhorn.io/RecurringJob kueue.x-k8s.io/LocalQueue
"""


class Shelf:
    """A catalog that counts what it was asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        _, _, name = request.url.path.partition(f"/{COMMIT}/")
        content = self.files.get(name)
        return httpx.Response(404) if content is None else httpx.Response(200, content=content)


def pull(into: Path, *names: str, files: dict[str, bytes] = FILES) -> tuple[list[Path], int]:
    return catalog.pull_from_catalog(LOCK, names, into, transport=httpx.MockTransport(Shelf(files)))


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# The lock


def test_the_lock_of_this_repository_pins_what_the_catalog_holds() -> None:
    lock = catalog.read_lock(ROOT / "crd-schemas.lock")
    assert len(lock.sums) >= 18
    folder = needed.schemas()
    assert lock.commit in (folder / "README.md").read_text()
    for name, expected in lock.sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected, name


def test_the_lock_covers_the_kinds_that_the_stacks_emit() -> None:
    lock = catalog.read_lock(ROOT / "crd-schemas.lock")
    assert len(lock.select(EMITTED.split())) == len(EMITTED.split()) + 1  # LocalQueue has two versions


def test_a_lock_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lines = "".join(f"{digest}  {name}\n" for name, digest in LOCK.sums.items())
    path.write_text(f"# why\n\ncommit {COMMIT}\n{lines}")
    assert catalog.read_lock(path) == LOCK


DAMAGED = [
    "commit 0123",
    f"commit {COMMIT}",
    f"{'0' * 64}  ../../etc/passwd_v1.json",
    f"{'0' * 64}  /etc/widget_v1.json",
    f"{'0' * 64} example.io/new_v1.json",
    f"{'0' * 63}  example.io/new_v1.json",
    f"{'0' * 64}  example.io/widget_v1.json",
    "nonsense",
]


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_lock_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "lock"
    path.write_text(f"commit {COMMIT}\n{'0' * 64}  example.io/widget_v1.json\n{line}\n")
    with pytest.raises(ConfigError, match=f"{path}:3"):
        catalog.read_lock(path)


@pytest.mark.parametrize("text", ["", "# only words\n", f"commit {COMMIT}\n", f"{'0' * 64}  a.io/b_v1.json\n"])
def test_a_lock_without_a_commit_or_files_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ConfigError, match="cannot be read"):
        catalog.read_lock(path)
    path.write_text(text)
    with pytest.raises(ConfigError, match="no commit or no file"):
        catalog.read_lock(path)


# From the catalog


def test_a_pull_fetches_all_that_is_pinned_at_the_pinned_commit(tmp_path: Path) -> None:
    shelf = Shelf(FILES)
    written, present = catalog.pull_from_catalog(LOCK, (), tmp_path / "into", transport=httpx.MockTransport(shelf))
    assert names_in(tmp_path / "into") == sorted(FILES)
    assert (len(written), present) == (3, 0)
    assert shelf.asked[0] == f"/datreeio/CRDs-catalog/{COMMIT}/example.io/gadget_v1alpha1.json"
    assert CrdSchemas([tmp_path / "into"]).find("example.io", "Widget", "v1") is not None


def test_what_is_there_already_is_not_fetched_again(tmp_path: Path) -> None:
    pull(tmp_path)
    shelf = Shelf(FILES)
    written, present = catalog.pull_from_catalog(LOCK, (), tmp_path, transport=httpx.MockTransport(shelf))
    assert (written, present, shelf.asked) == ([], 3, [])


def test_a_file_that_was_changed_is_fetched_again(tmp_path: Path) -> None:
    pull(tmp_path)
    (tmp_path / "other.io/widget_v2.json").write_text("{}")
    written, present = pull(tmp_path)
    assert written == [tmp_path / "other.io/widget_v2.json"]
    assert present == 2
    assert written[0].read_bytes() == FILES["other.io/widget_v2.json"]


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("Gadget", ["example.io/gadget_v1alpha1.json"]),
        ("widget", ["example.io/widget_v1.json", "other.io/widget_v2.json"]),
        ("other.io/Widget", ["other.io/widget_v2.json"]),
        ("example.io/v1/Widget", ["example.io/widget_v1.json"]),
    ],
)
def test_kinds_are_chosen_by_name(tmp_path: Path, name: str, files: list[str]) -> None:
    pull(tmp_path, name)
    assert names_in(tmp_path) == files


@pytest.mark.parametrize("name", ["Wigdet", "example.io/v9/Widget", "none.io/Widget", "a/b/c/d", "x/", ""])
def test_a_kind_that_is_not_pinned_is_wrong_use(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        pull(tmp_path, name)
    assert caught.value.exit_code == 2
    assert caught.value.remedy
    assert ('Did you mean "widget"?' in caught.value.remedy) == (name == "Wigdet" or name.endswith("/Widget"))


def test_a_wrong_checksum_is_refused_and_nothing_is_left_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(GitopsError) as caught:
        pull(tmp_path, "Gadget", files={**FILES, "example.io/gadget_v1alpha1.json": b'{"type": "evil"}'})
    actual = hashlib.sha256(b'{"type": "evil"}').hexdigest()
    for word in ("example.io/gadget_v1alpha1.json", actual, LOCK.sums["example.io/gadget_v1alpha1.json"]):
        assert word in caught.value.message
    assert names_in(tmp_path) == []


def test_a_wrong_file_does_not_replace_a_right_one_of_another_kind(tmp_path: Path) -> None:
    pull(tmp_path, "Gadget")
    with pytest.raises(GitopsError):
        pull(tmp_path, files=dict.fromkeys(FILES, b"x"))
    assert names_in(tmp_path) == ["example.io/gadget_v1alpha1.json"]


def test_a_catalog_that_does_not_answer_is_unreachable(tmp_path: Path) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route", request=request)

    with pytest.raises(ClusterUnreachable, match="no route") as caught:
        catalog.pull_from_catalog(LOCK, (), tmp_path, transport=httpx.MockTransport(refuse))
    assert caught.value.exit_code == 5
    assert names_in(tmp_path) == []


def test_a_file_that_the_catalog_does_not_have_is_unreachable_with_its_address(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnreachable, match=r"gadget_v1alpha1\.json.*404"):
        pull(tmp_path, "Gadget", files={})


def test_an_answer_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_LARGEST", 10)
    with pytest.raises(GitopsError, match="larger than"):
        pull(tmp_path, "Gadget")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GitopsError, match="cannot be written"):
        pull(tmp_path / "file", "Gadget")


# From a cluster


class Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path.partition("?")[0])
        content = json.dumps(answer if answer is not None else {"kind": "Status", "code": 404}).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An API on the loopback, and a kubectl context that points at it."""
    needed.program("kubectl", "what is pulled from a cluster")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    kubeconfig(tmp_path, monkeypatch, server.server_address[1])
    yield
    server.shutdown()
    server.server_close()
    thread.join()


def kubeconfig(folder: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    path = folder / "kubeconfig"
    config = {
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **config}))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(folder))


@pytest.mark.parametrize("name", ["Widget", "example.io/Widget", "example.io/v1/widget"])
def test_a_kind_that_the_cluster_serves_becomes_a_strict_schema(cluster: None, tmp_path: Path, name: str) -> None:
    written, absent = catalog.pull_from_cluster(None, [name], tmp_path / "into")
    assert (written, absent) == ([tmp_path / "into/example.io/widget_v1.json"], [])
    found = CrdSchemas([tmp_path / "into"]).find("example.io", "Widget", "v1")
    assert found is not None
    assert [fault.pointer for fault in found.compiled.faults({"spec": {"sise": 1}})] == ["/spec/sise"]


def test_without_names_the_pinned_kinds_are_asked_for(cluster: None, tmp_path: Path) -> None:
    written, absent = catalog.pull_from_cluster(LOCK, [], tmp_path / "into")
    assert [path.name for path in written] == ["widget_v1.json"]
    assert sorted(map(str, absent)) == ["example.io/v1alpha1/gadget", "other.io/v2/widget"]


def test_without_names_and_a_lock_there_is_nothing_to_ask_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        catalog.pull_from_cluster(None, [], tmp_path, ask=ANSWERS.__getitem__)


def test_a_cluster_that_does_not_answer_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed.program("kubectl", "what is pulled from a cluster")
    kubeconfig(tmp_path, monkeypatch, 1)
    with pytest.raises(ClusterUnreachable, match="refused"):
        catalog.pull_from_cluster(None, ["Widget"], tmp_path / "into")


def test_without_kubectl_the_tool_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="kubectl"):
        catalog.pull_from_cluster(None, ["Widget"], tmp_path / "into")


def test_a_cluster_cannot_lead_a_file_out_of_the_folder(tmp_path: Path) -> None:
    owner = {"group": "../../x", "kind": "Widget", "version": "v1"}
    document = {"components": {"schemas": {"X": {"x-kubernetes-group-version-kind": [owner]}}}}
    answers: dict[str, Any] = {"/openapi/v3": INDEX, "/openapi/v3/apis/other.io/v9": document}
    with pytest.raises(GitopsError, match="names a kind"):
        catalog.pull_from_cluster(None, ["Widget"], tmp_path / "into", ask=lambda path: answers.get(path, {}))
    assert not (tmp_path / "into").exists()


# The verb and its folders


class Said:
    """Keeps what the verb tells."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.documents: list[Any] = []
        self.note = self.notes.append
        self.data = self.documents.append


def run(*words: str) -> tuple[int, Said]:
    said, parser = Said(), argparse.ArgumentParser()
    verb.register(parser.add_subparsers())
    arguments = parser.parse_args(["schemas", "pull", *words])
    return arguments.run(arguments, said), said


def test_the_verb_writes_into_the_folder_of_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lock = tmp_path / "lock"
    lock.write_text(f"commit {COMMIT}\n" + "".join(f"{digest}  {name}\n" for name, digest in LOCK.sums.items()))
    pinned, served = catalog.schema_folders(LOCK)
    assert (pinned, served) == (catalog.catalog_folder(LOCK), catalog.cluster_folder())
    pull(pinned)
    code, said = run("--lock", str(lock), "--format", "json")
    assert code == 0
    assert said.documents == [
        {"folder": str(tmp_path / "paperclip-gitops/schemas" / COMMIT), "written": [], "present": 3},
    ]
    code, said = run("--from-cluster", "--lock", str(lock))
    assert code == 0
    assert said.notes[0] == f"schemas: 1 written from the cluster, in {served}"
    assert len(said.notes) == 3
    code, said = run("--from-cluster", "--into", str(tmp_path / "x"), "Widget", "Nothing")
    assert code == 1
    assert names_in(tmp_path / "x") == ["example.io/widget_v1.json"]


def test_the_cache_root_follows_xdg_and_creates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "paperclip-gitops"
    for useless in ("", "relative/cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", useless)
        assert cache_root() == tmp_path / "home" / ".cache" / "paperclip-gitops"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == tmp_path / "home" / ".cache" / "paperclip-gitops"
    assert list(tmp_path.iterdir()) == []
