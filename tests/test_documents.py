"""YAML as kubectl reads it, and texts that stand for far more than they say."""

import pytest

from hooks.kube.documents import InvalidDocument, read_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("53:53", "53:53"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("=", "="),
        ("8080", 8080),
        ("-1", -1),
        ("0x1F", 31),
        ("0755", 493),
        ("1_000", 1000),
        ("0.5", 0.5),
        ("1.5e+3", 1500.0),
        ("yes", True),
        ("~", None),
        ('"8080"', "8080"),
    ],
)
def test_a_plain_value_is_what_kubectl_takes_it_for(text: str, value: object) -> None:
    assert read_documents(f"a: {text}") == [{"a": value}]


def test_several_documents_and_json_are_read() -> None:
    assert read_documents("a: 1\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    assert read_documents('\ufeff{"a": [1, null]}') == [{"a": [1, None]}]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x: &a " + "b" * 60_000 + "\ny:\n" + "- *a\n" * 4000, id="a long text many times"),
        pytest.param(
            "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]",
            id="lists",
        ),
        pytest.param("[" * 600, id="deep"),
    ],
)
def test_a_text_that_stands_for_too_much_is_refused(text: str) -> None:
    with pytest.raises(InvalidDocument, match="nested too deeply, or far larger than it looks"):
        read_documents(text, largest=1000)


def test_a_long_text_that_is_there_once_is_fine() -> None:
    assert read_documents("x: " + "b" * 60_000, largest=1000) == [{"x": "b" * 60_000}]


@pytest.mark.parametrize("text", ["a: [", "a: &a [*a]", "a: .nan", "a: !!python/object:x {}"])
def test_what_has_no_place_in_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidDocument, match=r"neither YAML nor JSON|nested"):
        read_documents(text)
