"""Settings: the defaults are promises, and every one can be given by variable and by flag."""

import pytest
from pydantic import ValidationError

from hooks.__main__ import build_parser, main
from hooks.service.settings import PREFIX, Settings, pairs

URL_FORM = "write http(s)://host[:port][/path], without user, query or fragment"
HEADERS_FORM = "write name=value,name=value, each a name and a value that an HTTP header can have"
MATCHERS_FORM = "write label=value,label=value, without quotes; only equality can be asked for"


def test_defaults_are_promises() -> None:
    assert Settings().model_dump() == {
        "host": "0.0.0.0",
        "port": 8080,
        "keep_alive_seconds": 120,
        "shutdown_seconds": 20,
        "tls_certificate_file": None,
        "tls_key_file": None,
        "max_body_bytes": 134_217_728,
        "log_format": "auto",
        "log_level": "info",
        "access_log": False,
        "prometheus_url": "http://prometheus.monitoring.svc.cluster.local:9090",
        "prometheus_allowed_urls": "http://*.svc, https://*.svc, http://*.svc.cluster.local, https://*.svc.cluster.local",
        "prometheus_timeout_seconds": 5,
        "prometheus_bearer_token_file": None,
        "prometheus_username": None,
        "prometheus_password_file": None,
        "prometheus_ca_file": None,
        "prometheus_client_certificate_file": None,
        "prometheus_client_key_file": None,
        "prometheus_headers": None,
        "prometheus_matchers": None,
    }


def test_idle_connections_outlive_those_of_metacontroller() -> None:
    assert Settings().keep_alive_seconds > 90


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAHOOKS_PORT", "9090")
    monkeypatch.setenv("METAHOOKS_ACCESS_LOG", "true")
    assert (Settings().port, Settings().access_log) == (9090, True)


def test_a_query_ends_well_before_metacontroller_gives_up() -> None:
    assert Settings().prometheus_timeout_seconds <= 5
    with pytest.raises(ValidationError):
        Settings(prometheus_timeout_seconds=8.1)


def test_pairs_are_read_without_the_blanks_around_them() -> None:
    assert pairs(" a = b , c=d=e,,f= ") == (("a", "b"), ("c", "d=e"), ("f", ""))
    assert pairs("") == pairs(None) == ()


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        if name.startswith("prometheus_") and Settings.model_fields[name].default is None:
            monkeypatch.setenv(f"{PREFIX}{name.upper()}", "")
    assert Settings().prometheus_username == ""


def test_what_is_wrong_with_settings_is_said_without_their_values() -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(prometheus_url="http://u:hunter2@a", prometheus_headers="x:hunter2", prometheus_matchers="a=~hunter2")
    assert refused.value.error_count() == 3
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(Settings(prometheus_headers="X-Key=hunter2"))


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
        *(
            pytest.param(
                f"--prometheus-{name.replace('_', '-')}",
                value,
                f"serve: prometheus_{name} (METAHOOKS_PROMETHEUS_{name.upper()}): {why}",
                id=f"{name} {value!a}",
            )
            for name, value, why in [
                ("url", "prometheus:9090", URL_FORM),
                ("url", "http://user:pw@prometheus", URL_FORM),
                ("url", "http://prometheus:0", "the port is not between 1 and 65535"),
                (
                    "allowed_urls",
                    "http://*.svc,*.example.com",
                    "pattern 2: write http(s)://host[:port][/path], with * for one or more characters of host or path",
                ),
                ("headers", "X-Scope-OrgID", "write name=value,name=value"),
                ("headers", "X Y=z", HEADERS_FORM),
                ("headers", "X-Y=", HEADERS_FORM),
                ("headers", "X-Y=a\nb", HEADERS_FORM),
                ("headers", "X-Y=ä", HEADERS_FORM),
                ("matchers", "cluster", "write name=value,name=value"),
                ("matchers", "clus-ter=a", MATCHERS_FORM),
                ("matchers", "cluster!=a", MATCHERS_FORM),
                ("matchers", "cluster=~a|b", MATCHERS_FORM),
                ("matchers", 'cluster="a"', MATCHERS_FORM),
                ("matchers", "namespace=a", "__name__ and namespace are in the query already"),
                ("matchers", "cluster=\udcff", "a value is not UTF-8"),
                ("client_key_file", "key.pem", "a key needs a client certificate file"),
                ("username", "a:b", "a name for basic authentication cannot have a colon"),
                ("password_file", "file", "basic authentication needs a name and a password file"),
            ]
        ),
    ],
)
def test_a_bad_flag_is_one_line_and_exit_code_2(
    flag: str, value: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", flag, value]) == 2
    assert capsys.readouterr().err.strip() == problem


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param(
            ["--prometheus-username", "me"],
            "serve: prometheus_password_file (METAHOOKS_PROMETHEUS_PASSWORD_FILE): "
            "basic authentication needs a name and a password file",
            id="a name without a password",
        ),
        pytest.param(
            ["--prometheus-username", "me", "--prometheus-password-file", "p", "--prometheus-bearer-token-file", "t"],
            "serve: prometheus_username (METAHOOKS_PROMETHEUS_USERNAME): "
            "there is a bearer token file already; give one of the two",
            id="two ways to authenticate",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_one_line(
    given: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *given]) == 2
    assert capsys.readouterr().err.strip() == problem


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("metahooks ")
