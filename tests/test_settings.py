"""Settings: the defaults are promises, and every one can be given by variable and by flag."""

import pytest
from pydantic import ValidationError

from hooks.__main__ import build_parser, main
from hooks.service.settings import PREFIX, Settings


def test_defaults_are_promises() -> None:
    assert Settings().model_dump() == {
        "host": "0.0.0.0",
        "port": 8080,
        "keep_alive_seconds": 120,
        "shutdown_seconds": 20,
        "max_body_bytes": 134_217_728,
        "log_format": "auto",
        "log_level": "info",
        "access_log": False,
    }


def test_idle_connections_outlive_those_of_metacontroller() -> None:
    assert Settings().keep_alive_seconds > 90


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAHOOKS_PORT", "9090")
    monkeypatch.setenv("METAHOOKS_ACCESS_LOG", "true")
    assert (Settings().port, Settings().access_log) == (9090, True)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().port = 1  # type: ignore[misc]  # that is the point


def test_help_lists_every_setting_with_default_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["serve", "--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert " ".join(str(field.description).split()) in shown
        assert f"Default: {field.default}." in shown
        assert f"{PREFIX}{name.upper()}" in shown


@pytest.mark.parametrize(
    ("flag", "value", "problem"),
    [
        pytest.param(
            "--port",
            "http",
            "serve: port (METAHOOKS_PORT): Input should be a valid integer, unable to parse string as an integer",
            id="not a number",
        ),
        pytest.param(
            "--keep-alive-seconds",
            "0",
            "serve: keep_alive_seconds (METAHOOKS_KEEP_ALIVE_SECONDS): Input should be greater than or equal to 1",
            id="out of range",
        ),
        pytest.param(
            "--log-format",
            "xml",
            "serve: log_format (METAHOOKS_LOG_FORMAT): Input should be 'auto', 'json' or 'text'",
            id="not a choice",
        ),
    ],
)
def test_a_bad_flag_is_one_line_and_exit_code_2(
    flag: str, value: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", flag, value]) == 2
    assert capsys.readouterr().err.strip() == problem


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("metahooks ")
