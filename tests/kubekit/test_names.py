from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kubekit import names

RAW = st.text(max_size=90) | st.text("abA/._- é", max_size=90)
LABELS = st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
PROPERTY = settings(deadline=None)

CHECKS = {
    "dns_label": (names.is_dns_label, names.explain_dns_label),
    "dns_subdomain": (names.is_dns_subdomain, names.explain_dns_subdomain),
    "service_name": (names.is_service_name, names.explain_service_name),
    "label_key": (names.is_label_key, names.explain_label_key),
    "label_value": (names.is_label_value, names.explain_label_value),
}
GOOD = {
    "dns_label": ["a", "0", "a-b", "a--b", "0a", "x" * 63],
    "dns_subdomain": ["a", "a.b", "a-1.b-2.c", "1.2", "x" * 64, ".".join(["x" * 62] * 4) + ".y"],
    "service_name": ["a", "a0", "a-b", "x" * 63],
    "label_key": ["a", "A_b.c-d", "a/b", "app.kubernetes.io/name", "x" * 63, "x" * 253 + "/" + "y" * 63, "1"],
    "label_value": ["", "a", "A_b.c-d", "x" * 63, "7e10", "a..b", "a__b"],
}
BAD = {
    "dns_label": {
        "": "is empty; it needs 1 to 63 characters",
        "x" * 64: "has 64 characters; at most 63 are allowed",
        "café": 'holds "é" at 4; only a-z, 0-9 and "-" are allowed',
        "A": 'holds "A" at 1',
        "a.b": 'holds "." at 2',
        "a_b": 'holds "_" at 2',
        "a\n": "holds U+000A at 2",
        "a\u200bb": "holds U+200B at 2",
        "-a": 'begins with "-"; it must begin and end with a letter or digit',
        "a-": 'ends with "-"',
        "-": 'begins with "-"',
    },
    "dns_subdomain": {
        "": "is empty; it needs 1 to 253 characters",
        "x" * 254: "has 254 characters; at most 253 are allowed",
        "a..b": "holds two dots in a row at 2",
        ".a": 'begins with "."',
        "a.": 'ends with "."',
        "a-.b": 'holds "-" beside a dot at 2',
        "a.b.-c": 'holds "-" beside a dot at 4',
        "a/b": 'holds "/" at 2',
        "a.B": 'holds "B" at 3',
    },
    "service_name": {
        "0a": 'begins with "0"; the name of a Service begins with a letter',
        "": "is empty",
        "a.b": 'holds "."',
    },
    "label_key": {
        "": "is empty; it needs 1 to 63 characters",
        "a/": 'has a part after "/" that is empty',
        "/a": 'has a part before "/" that is empty',
        "A.b/c": 'has a part before "/" that holds "A" at 1',
        "a/b/c": 'has a part before "/" that holds "/" at 2',
        "a/" + "x" * 64: 'has a part after "/" that has 64 characters',
        "x" * 254 + "/a": 'has a part before "/" that has 254 characters',
        "a b": 'holds " " at 2',
        "_a": 'begins with "_"',
    },
    "label_value": {
        "x" * 64: "has 64 characters; at most 63 are allowed",
        "ü" * 100: "has 100 characters",
        "a/b": 'holds "/" at 2',
        ".a": 'begins with "."',
        "a-": 'ends with "-"',
        " ": 'holds " " at 1',
    },
}


@pytest.mark.parametrize(("check", "text"), [(check, text) for check, texts in GOOD.items() for text in texts])
def test_a_legal_name_is_accepted_without_a_word(check, text):
    accepts, explain = CHECKS[check]
    assert accepts(text)
    assert explain(text) == ""


@pytest.mark.parametrize(
    ("check", "text", "why"), [(check, *item) for check, texts in BAD.items() for item in texts.items()]
)
def test_an_illegal_name_is_refused_with_the_reason(check, text, why):
    accepts, explain = CHECKS[check]
    assert not accepts(text)
    assert explain(text).startswith(why)


@PROPERTY
@given(st.sampled_from(sorted(CHECKS)), st.text("aB0-._/é\n", max_size=8) | st.text(max_size=5))
def test_a_name_is_explained_exactly_when_it_is_refused(check, text):
    accepts, explain = CHECKS[check]
    assert accepts(text) == (explain(text) == "")


@pytest.mark.parametrize("text", ["", "a", "x" * 63, "x" * 64, "a..b", "-a", "a_", "A", "é", "a b", "a/b", "7e10"])
def test_kubectl_judges_the_value_of_a_label_in_the_same_way(kubectl, text):
    pod = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}'
    done = kubectl(pod, "label", f"k={text}", "-o", "name")
    assert (done.returncode == 0) == names.is_label_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "x" * 63,
        "x" * 64,
        "a..b",
        "-a",
        "a_",
        "A",
        "é",
        "a/b",
        "a/",
        "/b",
        "a/b/c",
        "A/b",
        "x" * 254 + "/a",
        "a_b/c",
    ],
)
def test_kubectl_judges_the_key_of_a_label_in_the_same_way(kubectl, text):
    service = '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {}}'
    done = kubectl(service, "set", "selector", f"{text}=v", "-o", "name")
    assert (done.returncode == 0) == names.is_label_key(text), done.stderr.decode()


@PROPERTY
@given(RAW, st.integers(18, 63))
def test_any_text_becomes_a_dns_label(raw, limit):
    short = names.slug_with_hash(raw, limit)
    assert names.is_dns_label(short)
    assert len(short) <= limit
    assert names.slug_with_hash(raw, limit) == short


@PROPERTY
@given(RAW, st.integers(18, 63))
def test_any_text_becomes_the_value_of_a_label(raw, limit):
    short = names.label_value(raw, limit)
    assert names.is_label_value(short)
    assert len(short) <= limit


@PROPERTY
@given(LABELS)
def test_a_legal_label_stays_as_it_is(label):
    assume(not names._SHORTENED.search(label))
    assert names.slug_with_hash(label) == names.label_value(label) == label


@pytest.mark.parametrize(
    "label",
    [
        "paperclip-7e10abc",
        "run-0198c2d4-7b1e-7c3a-9f00-0123456789ab",
        "a-0123456789abcde",
        "a-0123456789abcdef0",
        "deadbeefdeadbeef",
    ],
)
def test_uuids_and_git_hashes_stay_as_they_are(label):
    assert names.slug_with_hash(label) == label


@pytest.mark.parametrize("shorten", [names.slug_with_hash, names.label_value])
def test_nobody_can_ask_for_the_short_form_of_another_text(shorten):
    for raw in ["A b", "é", "", "x" * 64, "a/b", "a-", "ß" * 300]:
        taken = shorten(raw)
        if taken != raw:
            assert shorten(taken) != taken
            assert shorten(shorten(taken)) not in {taken, shorten(taken)}


@PROPERTY
@given(st.sets(RAW, max_size=8))
def test_different_texts_get_different_labels(raws):
    family = raws | {raw.lower() for raw in raws} | {unicodedata.normalize("NFD", raw) for raw in raws}
    family |= {raw[:63] for raw in raws} | {raw.replace("/", "") for raw in raws} | {raw + "-" for raw in raws}
    family |= {names.slug_with_hash(raw) for raw in family} | {names.label_value(raw) for raw in family}
    assert len({names.slug_with_hash(raw) for raw in family}) == len(family)
    assert len({names.label_value(raw) for raw in family}) == len(family)


def test_what_differs_only_in_what_is_dropped_stays_apart():
    twins = [
        "a/b",
        "ab",
        "a.b",
        "a b",
        "A/b",
        "a//b",
        "a/b/",
        "\u00e9",
        "e\u0301",
        "e",
        "x" * 63,
        "x" * 64,
        "x" * 64 + "y",
        "X" * 63,
    ]
    assert len({names.slug_with_hash(raw) for raw in twins}) == len(twins)
    assert len({names.label_value(raw) for raw in twins}) == len(twins)


def test_the_words_of_the_text_can_still_be_read():
    assert names.slug_with_hash("Häuser & Söhne, Abt. 7").startswith("hauser-sohne-abt-7-")
    assert names.label_value("Team A/b_C.d").startswith("Team-A-b_C.d-")
    assert names.slug_with_hash("日本").startswith("x-")
    assert names.label_value("") == ""


@pytest.mark.parametrize("limit", [0, 17, 64])
def test_a_limit_without_room_for_the_hash_is_refused(limit):
    with pytest.raises(ValueError, match="it must be 18 to 63"):
        names.slug_with_hash("a", limit)
