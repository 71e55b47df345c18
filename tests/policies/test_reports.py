"""Every format says the same, is valid where there is a standard, and takes any text whatever."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from kubekit.identity import ObjectId
from policies.model import Finding, Severity, Source
from policies.registry import by_id
from policies.reports import FORMATS, Report, compare, render
from policies.reports.formats import SMALLEST

ROOT = Path(__file__).resolve().parents[2]
SERVER = ObjectId("apps/v1", "Deployment", "shop", "web")
NASTY = "a|b <script> & \"q\" 's' %0A, x: `c` [l](u) @team #1\n::error::pwned\r\n\x1b[31m\x00\ufffe é 漢 \U0001f600 ]]>"


def finding(policy="image-digest", severity=Severity.ERROR, **changes):
    one = Finding(
        policy,
        severity,
        SERVER,
        "/spec/template/spec/containers/0/image",
        "nginx:1 has no digest, and must end in @sha256:...",
        "pin it",
        Source("deploy/web.yaml", 17),
        container="web",
    )
    return replace(one, **changes)


MIXED = Report(
    (
        finding(),
        finding("read-only-rootfs", Severity.WARNING, waived="the shell writes there"),
        finding("es-consumed", Severity.INFO, source=Source("deploy/web.yaml", 0)),
        finding("yaml-readable", object=None, pointer="", container="", source=Source("stdin", 3), remedy=""),
        finding("no-such-policy", source=None),
        finding("label-syntax", object=replace(SERVER, name=NASTY), message=NASTY, source=Source(NASTY, 2)),
    ),
    objects=3,
    version="1.2.3",
)


def report_schema():
    schema = json.loads((ROOT / "schemas" / "report.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def sarif_schema():
    return Draft7Validator(json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text()))


def with_baseline(report):
    document = json.loads(render(report, "json"))
    gone = finding("pvc-exists", message="gone by now")
    before = Report((*report.findings[1:], gone))
    baseline = compare(report.findings, json.loads(render(before, "json")), "before.json")
    assert document
    return replace(report, baseline=baseline)


@pytest.mark.parametrize("report", [MIXED, Report(()), with_baseline(MIXED)], ids=["mixed", "empty", "baseline"])
class TestEveryFormat:
    def test_json_is_as_its_published_schema_says(self, report):
        document = json.loads(render(report, "json"))
        assert [error.message for error in report_schema().iter_errors(document)] == []
        assert len(document["findings"]) == len(report.findings)

    def test_sarif_is_as_the_standard_says(self, report):
        document = json.loads(render(report, "sarif"))
        assert [error.message for error in sarif_schema().iter_errors(document)] == []
        (run,) = document["runs"]
        assert len(run["results"]) == len(report.findings)
        for result in run["results"]:
            assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["partialFingerprints"]
            (location,) = result["locations"]
            assert location["physicalLocation"]["region"]["startLine"] >= 1
            assert location["physicalLocation"]["artifactLocation"]["uri"].isascii()
        assert list(empty_things(document["runs"])) == ([] if report.findings else ["/0/results"])

    def test_junit_is_as_ci_servers_read_it(self, report):
        root = ElementTree.fromstring(render(report, "junit"))
        assert list(junit_faults(root)) == []
        (suite,) = root
        assert {case.get("name") for case in suite} >= set(by_id())

    def test_github_gets_one_command_a_line(self, report):
        lines = render(report, "github").removesuffix("\n").split("\n")
        assert all(re.fullmatch(r"::(error|warning|notice) [^\r\n]*title=[^:,]+::[^\r\n]+", line) for line in lines)
        assert len(lines) == 1 + sum(not one.waived for one in report.findings)

    def test_markdown_is_a_table_of_as_many_rows(self, report):
        rows = [line for line in render(report, "markdown").splitlines() if line.startswith("| ")]
        fixed = report.baseline.fixed if report.baseline else ()
        assert len(rows) == (1 + len(report.findings) + len(fixed) if report.findings else 0)
        assert {len(re.findall(r"\|", row)) for row in rows} <= {6}

    def test_text_keeps_to_one_line_what_is_one(self, report):
        text = render(report, "text")
        assert text.endswith(f"{report.told()}\n")
        assert all(line.isprintable() for line in text.splitlines())


def empty_things(tree, pointer=""):
    if tree in ({}, [], ""):
        yield pointer
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from empty_things(value, f"{pointer}/{key}")


# Element: (attributes that must be there, other attributes, elements inside), as in the XSD that Jenkins and its
# readers go by; times are decimals, counts are whole numbers.
_JUNIT = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests"},
        {"failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"testcase", "properties", "system-out", "system-err"},
    ),
    "testcase": ({"name", "classname"}, {"time"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": (set(), {"message", "type"}, set()),
    "skipped": (set(), {"message", "type"}, set()),
    "system-out": (set(), set(), set()),
}


def junit_faults(element):
    needed, other, inside = _JUNIT[element.tag]
    if not needed <= set(element.attrib) <= needed | other:
        yield f"{element.tag}: attributes {sorted(element.attrib)}"
    for name in {"tests", "failures", "errors", "skipped"} & set(element.attrib):
        if not element.attrib[name].isdigit():
            yield f"{element.tag}: {name} is no count"
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", element.get("time", "0")):
        yield f"{element.tag}: time is no number"
    tags = [child.tag for child in element]
    if not set(tags) <= inside:
        yield f"{element.tag}: holds {sorted(set(tags) - inside)}"
    if element.tag == "testcase" and (len(tags) != len(set(tags)) or {"failure", "skipped"} <= set(tags)):
        yield f"{element.get('name')}: holds {tags}"
    if element.tag == "testsuite":
        for name, tag in (("tests", None), ("failures", "failure"), ("skipped", "skipped")):
            count = len(element) if tag is None else sum(case.find(tag) is not None for case in element)
            if int(element.attrib[name]) != count:
                yield f"{name} is {element.attrib[name]}, and there are {count}"
    for child in element:
        yield from junit_faults(child)


def test_a_waived_finding_is_shown_and_counted_everywhere():
    report = Report((finding(waived="so it is"),), 1)
    assert "waived: 1 of image-digest (so it is)" in render(report, "text")
    assert json.loads(render(report, "json"))["findings"][0]["waived"] == "so it is"
    (result,) = json.loads(render(report, "sarif"))["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external", "status": "accepted", "justification": "so it is"}]
    case = ElementTree.fromstring(render(report, "junit")).find(".//testcase[@name='image-digest']")
    assert case.find("skipped").get("message") == "waived: so it is"
    assert "1 waived" in render(report, "github")
    assert "(waived: so it is)" in render(report, "markdown")
    assert not report.failed


def test_what_does_not_fail_the_check_is_no_failure_of_junit():
    report = Report((finding("es-consumed", Severity.WARNING),), 1)
    case = ElementTree.fromstring(render(report, "junit")).find(".//testcase[@name='es-consumed']")
    assert case.find("failure") is None
    assert "warning Deployment shop/web" in case.find("system-out").text
    strict = replace(report, failing=frozenset(Severity))
    assert ElementTree.fromstring(render(strict, "junit")).get("failures") == "1"


def test_github_escapes_as_its_toolkit_does():
    line = render(
        Report((finding(message="50%: a,b\r\nnext", source=Source("a:b,c%.yaml", 0)),)), "github"
    ).splitlines()[0]
    assert line == (
        "::error file=a%3Ab%2Cc%25.yaml,line=1,title=image-digest::Deployment shop/web"
        " /spec/template/spec/containers/0/image: 50%25: a,b%0D%0Anext%0ATo mend it: pin it"
    )


def test_github_shows_the_worst_first():
    report = Report((finding("a", Severity.INFO), finding("b", Severity.WARNING), finding("c")))
    assert re.findall(r"title=(\w)::", render(report, "github")) == ["c", "b", "a"]


def test_a_path_is_relative_to_the_root_in_sarif_or_a_file_of_the_machine():
    def uri(file):
        report = Report((finding(source=Source(file, 1)),))
        (result,) = json.loads(render(report, "sarif"))["runs"][0]["results"]
        return result["locations"][0]["physicalLocation"]["artifactLocation"]

    assert uri("a b/ü.yaml") == {"uri": "a%20b/%C3%BC.yaml", "uriBaseId": "%SRCROOT%"}
    assert uri("/srv/x.yaml") == {"uri": "file:///srv/x.yaml"}


class TestMarkdownLimit:
    MANY = Report(tuple(finding(message=f"é{index} 漢字 " * 9) for index in range(300)), 300)

    @pytest.mark.parametrize("limit", [SMALLEST, 1_777, 20_000, 65_000, 10_000_000])
    def test_it_keeps_to_the_bytes_and_says_what_is_left_out(self, limit):
        text = render(self.MANY, "markdown", max_bytes=limit)
        assert len(text.encode()) <= limit
        rows = [line for line in text.splitlines() if line.startswith("| error")]
        left = re.search(r"^([0-9,]+) more are left out", text, re.MULTILINE)
        assert len(rows) + (int(left[1].replace(",", "")) if left else 0) == 300
        assert all(row.endswith(" |") for row in rows)

    def test_what_just_fits_is_whole(self):
        whole = render(self.MANY, "markdown", max_bytes=10_000_000)
        assert render(self.MANY, "markdown", max_bytes=len(whole.encode())) == whole
        assert "left out" in render(self.MANY, "markdown", max_bytes=len(whole.encode()) - 1)


class TestBaseline:
    def before(self, *findings):
        return json.loads(render(Report(findings), "json"))

    def test_only_what_is_new_fails_and_what_is_gone_is_named(self):
        old, gone, new = finding(), finding(message="gone"), finding(message="new")
        report = Report((old, new), baseline=compare((old, new), self.before(old, gone), "b.json"))
        assert [report.fails(index) for index in (0, 1)] == [False, True]
        assert (report.new, [one["message"] for one in report.baseline.fixed]) == (1, ["gone"])
        assert "1 new, 1 fixed" in report.told()
        text = render(report, "text")
        assert "known: 1 of image-digest" in text
        assert "fixed: image-digest  Deployment shop/web /spec/template/spec/containers/0/image" in text
        states = [one["baselineState"] for one in json.loads(render(report, "sarif"))["runs"][0]["results"]]
        assert states == ["unchanged", "new"]

    def test_a_second_of_the_same_is_new(self):
        one = finding()
        assert compare((one, one), self.before(one), "").known == {0}

    def test_what_was_waived_then_was_not_open(self):
        baseline = compare((finding(),), self.before(finding(waived="so")), "")
        assert baseline.known == frozenset()

    def test_what_is_waived_now_is_not_fixed(self):
        assert compare((finding(waived="so"),), self.before(finding()), "").fixed == ()

    @pytest.mark.parametrize("document", [[], {}, {"kind": "Report"}, {"kind": "Report", "findings": [{}]}, 5])
    def test_what_is_no_report_is_refused(self, document):
        with pytest.raises(ValueError, match=r"report of|without fingerprints"):
            compare((), document, "b.json")


texts = st.text(max_size=30)


@settings(max_examples=150, deadline=None)
@given(message=texts, remedy=texts, name=texts, pointer=texts, file=texts, waived=texts)
def test_no_text_whatever_breaks_a_format(message, remedy, name, pointer, file, waived):
    one = finding(
        message=message,
        remedy=remedy,
        object=replace(SERVER, name=name),
        pointer=pointer,
        source=Source(file, 1),
        waived=waived,
    )
    report = Report((one,), 1)
    made = {form: render(report, form) for form in FORMATS}
    assert all(text.endswith("\n") for text in made.values())
    assert list(junit_faults(ElementTree.fromstring(made["junit"]))) == []
    assert [error.message for error in sarif_schema().iter_errors(json.loads(made["sarif"]))] == []
    assert all(line.startswith("::") for line in made["github"].removesuffix("\n").split("\n"))
    for text in made.values():
        text.encode()


def test_two_files_that_are_wrong_alike_are_two_findings():
    one = finding(object=None, source=Source("a.yaml", 1))
    assert one.fingerprint != replace(one, source=Source("b.yaml", 1)).fingerprint
    assert one.fingerprint == replace(one, source=Source("a.yaml", 9)).fingerprint


def test_every_format_has_a_name_in_the_command_line():
    from charts_py.cli import check

    assert check._FORMATS == FORMATS
    assert check._SMALLEST == SMALLEST
