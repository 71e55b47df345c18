"""The synth verb, run in process on the shipped environments."""

from __future__ import annotations

import json

import pytest
import yaml

from charts_py.cli.main import main


def synth(*arguments: str) -> int:
    return main(["synth", *arguments])


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_shipped_environment_is_written_one_object_a_file(project):
    assert synth() == 0
    dist = project / "dist"
    assert {path.name for path in dist.iterdir()} == {"_fleet", "minimal", "operating-post", "frank-2026-08"}
    deployment = dist / "operating-post" / "paperclip-system" / "deployment-paperclip.yaml"
    assert yaml.safe_load(deployment.read_text())["spec"]["strategy"] == {"type": "Recreate"}
    for path in dist.glob("*/paperclip-*/*.yaml"):
        documents = list(yaml.safe_load_all(path.read_text()))
        assert len(documents) == 1


def test_a_second_synth_changes_nothing_and_says_so(project, capsys):
    synth()
    before = files(project / "dist")
    capsys.readouterr()
    assert synth() == 0
    assert files(project / "dist") == before
    said = capsys.readouterr().err
    assert "operating-post: unchanged" in said
    assert "nothing changed" in said


def test_a_change_of_the_config_renders_that_environment_only(project, capsys):
    synth()
    edit(project / "environments" / "operating-post.yaml", "size: 2Gi", "size: 4Gi")
    capsys.readouterr()
    assert synth() == 0
    said = capsys.readouterr().err
    assert "frank-2026-08: unchanged" in said
    claim = project / "dist" / "operating-post" / "paperclip-system" / "persistentvolumeclaim-paperclip-data.yaml"
    assert '"4Gi"' in claim.read_text()


def test_check_is_quiet_about_a_current_dist_and_shows_what_is_stale(project, capsys):
    synth()
    assert synth("--check") == 0
    claim = project / "dist" / "minimal" / "paperclip-system" / "persistentvolumeclaim-paperclip-data.yaml"
    edit(claim, "10Gi", "11Gi")
    capsys.readouterr()
    assert synth("--check") == 1
    shown = capsys.readouterr()
    assert '-      storage: "11Gi"' in shown.out
    assert '+      storage: "10Gi"' in shown.out
    assert "is stale" in shown.err
    assert "11Gi" in claim.read_text(), "--check writes nothing"


def test_an_edit_by_hand_is_undone_and_reported(project, capsys):
    synth()
    claim = project / "dist" / "minimal" / "paperclip-system" / "persistentvolumeclaim-paperclip-data.yaml"
    edit(claim, "10Gi", "11Gi")
    capsys.readouterr()
    assert synth() == 0
    assert "10Gi" in claim.read_text()
    assert "was edited by hand" in capsys.readouterr().err


def test_an_object_that_would_go_away_asks_for_allow_removal(project, capsys):
    synth()
    before = files(project / "dist")
    edit(project / "environments" / "operating-post.yaml", "  loadBalancer: {ip: 192.168.55.212}\n", "")
    capsys.readouterr()
    assert synth() == 1
    said = capsys.readouterr().err
    assert "service-paperclip-lb.yaml" in said
    assert "--allow-removal" in said
    assert files(project / "dist") == before
    assert synth("--allow-removal") == 0
    assert not (project / "dist" / "operating-post" / "paperclip-system" / "service-paperclip-lb.yaml").exists()


def test_an_environment_whose_config_is_gone_asks_for_allow_removal(project, capsys):
    synth()
    (project / "environments" / "frank-2026-08.yaml").unlink()
    capsys.readouterr()
    assert synth() == 1
    assert "frank-2026-08" in capsys.readouterr().err
    assert (project / "dist" / "frank-2026-08").is_dir()


def test_one_environment_leaves_the_others_alone(project):
    synth()
    edit(project / "environments" / "frank-2026-08.yaml", "size: 10Gi", "size: 20Gi")
    before = files(project / "dist" / "frank-2026-08")
    assert synth("--environment", "minimal", "--force") == 0
    assert files(project / "dist" / "frank-2026-08") == before


def test_stdout_is_the_product_and_nothing_is_written(project, capsys):
    assert synth("--stdout", "--environment", "minimal", "--stack", "paperclip-agents") == 0
    kinds = [document["kind"] for document in yaml.safe_load_all(capsys.readouterr().out)]
    assert "ResourceQuota" in kinds
    assert "Deployment" not in kinds
    assert not (project / "dist").exists()


def test_json_says_what_was_written(project, capsys):
    assert synth("--format", "json", "--environment", "minimal") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kind"] == "Synth"
    assert answer["environments"] == {"minimal": 18}
    assert "minimal/paperclip-system/deployment-paperclip.yaml" in answer["written"]


def test_a_finding_stops_the_synth_before_a_byte_is_written(project, capsys):
    edit(project / "environments" / "operating-post.yaml", "ip: 192.168.55.212", "ip: 192.168.99.1")
    assert synth() == 1
    assert "lies in no address pool" in capsys.readouterr().err
    assert not (project / "dist").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--environment", "nowhere"], 2, "there is no environment 'nowhere'"),
        (["--environments", "nowhere"], 3, "nowhere: there is no such folder"),
        (["--stdout", "--stack", "nowhere"], 2, "there is no stack 'nowhere'"),
        (["--stack", "paperclip-agents"], 2, "--stack goes with --stdout"),
        (["--stdout", "--check"], 2, "not allowed with argument"),
        (["--templates", "nowhere"], 2, "nowhere: there is no such folder"),
    ],
)
def test_wrong_use_says_what_is_known(project, capsys, arguments, code, message):
    assert synth(*arguments) == code
    assert message in capsys.readouterr().err


def test_two_files_of_one_name_are_refused(project, capsys):
    text = (project / "environments" / "minimal.yaml").read_text()
    (project / "environments" / "twin.yaml").write_text(text)
    assert synth() == 3
    assert "'minimal' stands in environments/minimal.yaml too" in capsys.readouterr().err
