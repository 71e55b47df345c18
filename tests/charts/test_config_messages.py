"""Every way in which a config can be wrong: what is said, where, and what mends it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from charts_py.cli.main import main
from charts_py.config.environment import Environment
from charts_py.config.load import InvalidConfig, load_environment, parse, written
from charts_py.errors import ConfigError
from charts_py.sources import config_files

MINIMAL = """\
apiVersion: paperclip-gitops/v1
kind: Environment
name: minimal
server:
  image: ghcr.io/paperclipai/paperclip:sha-d554c47
  publicUrl: http://localhost:3100
  resources:
    requests: {cpu: 250m, memory: 512Mi}
    limits: {cpu: "2", memory: 4Gi}
database:
  kind: external
  secret: paperclip-database
  namespace: postgres
agents:
  jobs:
    kinds:
      - name: claude
        image: ghcr.io/paperclipai/paperclip:sha-d554c47
"""


def with_(old, new):
    assert MINIMAL.count(old) >= 1, old
    return MINIMAL.replace(old, new, 1)


def below(section, line):
    """MINIMAL with one more line, the first of a section."""
    return with_(f"\n{section}:\n", f"\n{section}:\n  {line}\n")


# What a file says → what is said of it: "line:column: field: message", and the mend on a line of its own.
WRONG = {
    "a field in the wrong case": (
        with_("publicUrl", "publicURL"),
        ["6:3: server.publicURL: there is no such field", "did you mean `publicUrl`?"],
    ),
    "a field in snake_case": (
        with_("publicUrl", "public_url"),
        ["6:3: server.public_url: there is no such field", "did you mean `publicUrl`?"],
    ),
    "a misspelt field of a union": (
        with_("namespace: postgres", "nmespace: postgres"),
        ["13:3: database.nmespace: there is no such field", "did you mean `namespace`?"],
    ),
    "a field that is like no other": (
        below("agents", "colour: red"),
        [
            "15:3: agents.colour: there is no such field",
            "known here: containerLimits, egress, jobs, namespace, quota, secrets, serviceAccount, workspace",
        ],
    ),
    "a field that is required": (
        with_("  publicUrl: http://localhost:3100\n", ""),
        ["4:1: server.publicUrl: is required", "add `publicUrl:` here"],
    ),
    "a field of the root that is required": (
        with_("name: minimal\n", ""),
        ["1:1: name: is required", "add `name:` here"],
    ),
    "a section without a value": (
        "apiVersion: paperclip-gitops/v1\nkind: Environment\nname: minimal\nserver:\n"
        + MINIMAL[MINIMAL.index("database:") :],
        ["4:1: server: must be a mapping, and is empty", "write a value, or take the line out"],
    ),
    "a number that is text": (
        below("server", "").replace("server:\n  \n", "cluster:\n  kubernetesVersion: 1.30\nserver:\n"),
        ["5:3: cluster.kubernetesVersion: must be text, and is a number", 'write it in quotes: "1.30"'],
    ),
    "a number in a flow mapping that is text": (
        with_('cpu: "2"', "cpu: 2"),
        ["9:14: server.resources.limits.cpu: must be text, and is a number", 'write it in quotes: "2"'],
    ),
    "true that is text": (
        below("server", "settings: {SERVE_UI: true}"),
        ["5:14: server.settings.SERVE_UI: must be text, and is true or false", 'write it in quotes: "true"'],
    ),
    "yes, which is text in YAML 1.2": (
        below("server", "trustProxy: yes"),
        ["5:3: server.trustProxy: must be true or false, and is text", "write true or false"],
    ),
    "text that is a number": (
        with_("  jobs:\n", '  jobs:\n    user: "1000"\n'),
        [
            "16:5: agents.jobs.user: must be a whole number, and is text",
            "write it without quotes, as digits",
        ],
    ),
    "a fraction": (
        with_("  jobs:\n", "  jobs:\n    user: 1.5\n"),
        ["16:5: agents.jobs.user: must be a whole number, and is 1.5"],
    ),
    "a number that is too small": (
        with_("  jobs:\n", "  jobs:\n    user: 0\n"),
        ["16:5: agents.jobs.user: is 0, and must be at least 1"],
    ),
    "a number that is too large": (
        with_("  jobs:\n", "  jobs:\n    terminationGracePeriodSeconds: 56\n"),
        ["16:5: agents.jobs.terminationGracePeriodSeconds: is 56, and must be at most 55"],
    ),
    "a list that is a mapping": (
        below("server", "ingressHosts: {}"),
        [
            "5:3: server.ingressHosts: must be a list, and is a mapping",
            "begin each entry with `- `, or write [a, b]",
        ],
    ),
    "a mapping that is a list": (
        below("server", "settings: [a]"),
        [
            "5:3: server.settings: must be a mapping, and is a list",
            "write `key: value` lines below it, indented",
        ],
    ),
    "a list that must not be empty": (
        MINIMAL[: MINIMAL.index("    kinds:")] + "    kinds: []\n",
        ["16:5: agents.jobs.kinds: is empty, and must have at least 1", "add one, or take the line out"],
    ),
    "a key that stands twice": (
        with_("name: minimal\n", "name: minimal\nname: other\n"),
        ['4:1: the key "name" stands here and at 3:1', "take one of the two out"],
    ),
    "an anchor": (
        with_("requests: {cpu", "requests: &amounts {cpu"),
        [
            '8:15: "&amounts" is an anchor, which is not read',
            "take it out, and write the value wherever it is used",
        ],
    ),
    "an alias": (
        with_("name: minimal", "name: *other"),
        ['3:7: "*other" is an alias, which is not read', "write out what it stands for"],
    ),
    "a tag": (
        with_("name: minimal", "name: !env minimal"),
        ['3:7: the tag "!env" is not read here', "take it out; YAML knows text, numbers and the like"],
    ),
    "too deep": (
        MINIMAL + "x: " + "[" * 70 + "]" * 70 + "\n",
        ["19:67: maps and lists are more than 64 levels deep here", "make the file flatter"],
    ),
    "too large": (
        MINIMAL + "#" * 262_144 + "\n",
        ["1:1: the file has 262,", "at most 262,144 are read", "split it into smaller files"],
    ),
    "several documents": (
        MINIMAL + "---\nkind: Environment\n",
        ["20:1: a second document begins here", 'take the "---" out, or split the file'],
    ),
    "a tab": (
        with_("  image:", "\timage:"),
        ["5:1: a tab stands where the indentation is", "indent with blanks"],
    ),
    "bytes that are no text": (
        MINIMAL.encode() + b"# \xff\n",
        ["19:3: byte 0xff is not UTF-8", "save the file as UTF-8"],
    ),
    "a quantity with a unit of its own": (
        with_("512Mi", "512MB"),
        [
            (
                "8:27: server.resources.requests.memory: '512MB' has the unit \"MB\", which Kubernetes does not know; "
                'write "512M"'
            ),
        ],
    ),
    "a request over its limit": (
        with_('cpu: "2"', "cpu: 100m"),
        ["7:3: server.resources: the request of cpu (250m) is over its limit (100m)"],
    ),
    "a network with bits of a host": (
        with_("namespace: postgres", "cidrs: [10.0.0.1/8]"),
        ["13:11: database.cidrs[0]: 10.0.0.1/8 has host bits set", "write 10.0.0.0/8"],
    ),
    "no network": (
        with_("namespace: postgres", "cidrs: [10.0.0.0/33]"),
        ["13:11: database.cidrs[0]: '10.0.0.0/33' does not appear to be an IPv4 or IPv6 network"],
    ),
    "an access mode as kubectl prints it": (
        with_("agents:\n", "agents:\n  workspace: {accessMode: RWX}\n"),
        [
            "15:15: agents.workspace.accessMode: is 'RWX', and must be 'ReadWriteMany' or 'ReadWriteOnce'",
            "did you mean 'ReadWriteMany'?",
        ],
    ),
    "one wrong entry of a list that must not be empty": (
        with_("server:\n", "cluster:\n  storageClasses: [{name: a, accessModes: [RWO]}]\nserver:\n"),
        [
            (
                "5:44: cluster.storageClasses[0].accessModes[0]: is 'RWO', and must be 'ReadWriteOnce', "
                "'ReadWriteOncePod', 'ReadWriteMany' or 'ReadOnlyMany'"
            ),
            "did you mean 'ReadWriteOnce'?",
        ],
    ),
    "an image that follows latest": (
        with_("paperclip:sha-d554c47\n  publicUrl", "paperclip:latest\n  publicUrl"),
        [
            "5:3: server.image: 'ghcr.io/paperclipai/paperclip:latest' follows `latest`: name the version",
        ],
    ),
    "an image without a tag": (
        with_("paperclip:sha-d554c47\n  publicUrl", "paperclip\n  publicUrl"),
        [
            (
                "5:3: server.image: 'ghcr.io/paperclipai/paperclip' names neither a tag nor a digest, "
                "so it would follow `latest`"
            ),
        ],
    ),
    "a union that does not say which": (
        with_("  kind: external\n", ""),
        [
            "10:1: database.kind: is required",
            "add `kind:` here: one of 'bitnami', 'cloudnative-pg', 'external'",
        ],
    ),
    "a union that says what there is not": (
        with_("  kind: external\n", "  kind: externl\n"),
        [
            "11:3: database.kind: is 'externl', and must be one of 'bitnami', 'cloudnative-pg', 'external'",
            "did you mean 'external'?",
        ],
    ),
    "a kind that is misspelt": (
        with_("kind: Environment", "kind: Enviroment"),
        ["2:1: kind: is 'Enviroment', and must be 'Environment'", "did you mean 'Environment'?"],
    ),
    "another version of the format": (
        with_("paperclip-gitops/v1", "paperclip-gitops/v2"),
        ["1:1: apiVersion: is 'paperclip-gitops/v2', and must be 'paperclip-gitops/v1'"],
    ),
    "a version of Kubernetes without schemas": (
        with_("server:\n", 'cluster: {kubernetesVersion: "1.10"}\nserver:\n'),
        ["4:11: cluster.kubernetesVersion: '1.10' is no version this release has schemas for: 1.29 to "],
    ),
    "a name that DNS does not take": (
        with_("name: minimal", "name: Minimal"),
        ['3:1: name: \'Minimal\' holds "M" at 1; only a-z, 0-9 and "-" are allowed'],
    ),
    "a label with an accent": (
        below("server", "nodeSelector: {example.com/zone: é}"),
        [
            (
                '5:18: server.nodeSelector["example.com/zone"]: \'é\' holds "é" at 1; '
                'only letters, digits, "-", "_" and "." are allowed'
            ),
        ],
    ),
    "a URL without a scheme": (
        with_("http://localhost:3100", "localhost:3100"),
        [
            "6:3: server.publicUrl: 'localhost:3100' is no http(s) URL such as https://paperclip.example.com",
        ],
    ),
    "text that does not match its pattern": (
        with_("server:\n", "argocd: {repository: https://github.com/a/b, path: /dist}\nserver:\n"),
        ["4:46: argocd.path: is '/dist', and must match ^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$"],
    ),
    "text that must not be empty": (
        with_("server:\n", 'argocd: {repository: ""}\nserver:\n'),
        ["4:10: argocd.repository: must not be empty", "write text"],
    ),
    "a rule over two sections, at the field it names": (
        with_("agents:\n", "agents:\n  egress: {fqdns: [github.com]}\n"),
        [
            "15:12: agents.egress.fqdns: only Cilium can allow by name; it needs `cluster.cilium`",
        ],
    ),
    "a mount of what is not there": (
        below("server", "mounts: [{volume: cache, path: /cache}]"),
        ["4:1: server: mount of 'cache' at /cache: there is no such volume"],
    ),
    "an empty file": ("", ["1:1: the file is empty", "`paperclip-gitops init` writes a starter"]),
    "only comments": ("# soon\n", ["1:1: the file is empty", "`paperclip-gitops init` writes a starter"]),
    "a list": (
        "- a\n",
        ["1:1: the file must be a mapping, and is a list", "`paperclip-gitops init` writes a starter"],
    ),
    "text": (
        "hello\n",
        ["1:1: the file must be a mapping, and is text", "`paperclip-gitops init` writes a starter"],
    ),
}


@pytest.fixture
def configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("environments").mkdir()
    return Path("environments")


@pytest.mark.parametrize(("content", "said"), WRONG.values(), ids=WRONG)
def test_each_problem_says_where_what_and_how_to_mend_it(content, said, configs):
    raw = content if isinstance(content, bytes) else content.encode()
    (configs / "a.yaml").write_bytes(raw)
    with pytest.raises(ConfigError) as error:
        _ = [load_environment(one.path) for one in config_files(configs)]
    assert error.value.exit_code == 3
    head, place, *mend = [*str(error.value).splitlines(), *str(error.value.remedy).splitlines()]
    assert head == "1 problem in the config"
    assert place.startswith(f"environments/a.yaml:{said[0]}")
    assert re.match(r"environments/a\.yaml:\d+:\d+: ", place)
    for text in said[1:]:
        assert text in "\n".join([place, *mend])


def test_two_problems_are_shown_at_once_by_line(configs, capsys):
    (configs / "a.yaml").write_text(MINIMAL.replace("512Mi", "512MB").replace("http://localhost", "localhost"))
    assert main(["synth"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("error: 2 problems in the config\n")
    assert not Path("dist").exists()
    assert said.index("a.yaml:6:3: server.publicUrl") < said.index("a.yaml:8:27: server.resources.requests.memory")


def test_problems_of_two_files_are_shown_at_once(configs, capsys):
    (configs / "a.yaml").write_text(with_("name: minimal", "name: one").replace("512Mi", "512MB"))
    (configs / "b.yaml").write_text(with_("name: minimal", "name: two").replace("512Mi", "512MB"))
    assert main(["synth"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("error: 2 problems in the config\n")
    assert "environments/a.yaml:8:27:" in said
    assert "environments/b.yaml:8:27:" in said


@pytest.mark.parametrize(
    "raw",
    [
        MINIMAL.encode(),
        MINIMAL.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + MINIMAL.encode(),
        b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode(),
    ],
    ids=["LF", "CRLF", "BOM", "BOM and CRLF"],
)
def test_the_editor_that_wrote_the_file_does_not_matter(raw):
    model, positions = parse(raw, "a.yaml", Environment)
    assert model == parse(MINIMAL.encode(), "a.yaml", Environment)[0]
    assert positions["/server/image"] == (5, 3)


def test_a_place_is_right_behind_a_byte_order_mark():
    text = "name: 1.10\n" + with_("name: minimal\n", "")
    with pytest.raises(InvalidConfig, match=r"a\.yaml:1:1: name: must be text") as caught:
        parse(b"\xef\xbb\xbf" + text.encode(), "a.yaml", Environment)
    assert caught.value.problems[0].remedy == 'write it in quotes: "1.10"'


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_environment(tmp_path / "none.yaml", "none.yaml")
    assert caught.value.message == "none.yaml: there is no such file"
    assert caught.value.remedy == "`paperclip-gitops init` writes a starter"


def test_a_folder_that_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["synth"]) == 3
    said = capsys.readouterr().err
    assert "error: environments: there is no such folder" in said
    assert "paperclip-gitops init" in said


def test_a_folder_without_a_config(configs, capsys):
    assert main(["synth", "--environments", str(configs)]) == 3
    assert "environments: there is no config in it" in capsys.readouterr().err


def test_the_place_of_a_field_is_its_line_or_that_it_is_a_default(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(MINIMAL)
    loaded = load_environment(path, "a.yaml")
    assert loaded.place_of("server.image") == "a.yaml:5"
    assert loaded.place_of("agents.jobs.kinds[0].name") == "a.yaml:17"
    assert loaded.place_of("server.storage.size") == "default"


def test_a_path_is_written_as_people_write_it():
    assert written(("agents", "jobs", "kinds", "0", "image")) == "agents.jobs.kinds[0].image"
    assert written(("server", "nodeSelector", "kubernetes.io/arch")) == 'server.nodeSelector["kubernetes.io/arch"]'
