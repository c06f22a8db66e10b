import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.quote import quote


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10Gi", '"10Gi"', id="plain text is put in double quotes"),
        pytest.param('a"b\n', '"a\\"b\\n"', id="quotes and line breaks are escaped"),
        pytest.param("٣Gi", '"\\u0663Gi"', id="a look-alike digit shows"),
        pytest.param("x" * 38, '"' + "x" * 38 + '"', id="38 characters fit"),
        pytest.param("x" * 39, '"' + "x" * 35 + '..."', id="39 characters are cut"),
    ],
)
def test_quotes_text(text: str, expected: str) -> None:
    assert quote(text) == expected


@given(st.text(max_size=200))
def test_is_one_short_line_of_ascii(text: str) -> None:
    quoted = quote(text)
    assert len(quoted) <= 40
    assert quoted.isascii()
    assert quoted.isprintable()
