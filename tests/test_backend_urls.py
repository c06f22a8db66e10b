"""Which URLs of Prometheus may be asked: spelling, patterns, and the fence around the server itself."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.service.backend_urls import (
    LONGEST,
    AllowedUrls,
    InvalidUrl,
    is_fenced_off,
    parse_patterns,
    parse_url,
    resolve,
)
from hooks.service.settings import Settings

FORM = "write http(s)://host[:port][/path], without user, query or fragment"
HOST = "the host is neither a name nor an address"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("http://prometheus:9090", "http://prometheus:9090", id="as it is"),
        pytest.param("http://prometheus:9090/", "http://prometheus:9090", id="trailing slash"),
        pytest.param("http://mimir/prometheus//", "http://mimir/prometheus", id="path and slashes"),
        pytest.param("HTTP://Mimir.Svc/Prometheus", "http://mimir.svc/Prometheus", id="case matters in the path only"),
        pytest.param("http://prometheus.svc.:80", "http://prometheus.svc", id="trailing dot, usual port"),
        pytest.param("https://prometheus:443", "https://prometheus", id="usual port of https"),
        pytest.param("https://prometheus:80", "https://prometheus:80", id="port of the other scheme"),
        pytest.param("http://10.0.0.7:9090", "http://10.0.0.7:9090", id="IPv4"),
        pytest.param("http://[FD00:0::7]:9090/p", "http://[fd00::7]:9090/p", id="IPv6"),
        pytest.param("http://_p._tcp.my_host", "http://_p._tcp.my_host", id="underscores"),
        pytest.param("http://vm/select/0:1/prometheus", "http://vm/select/0:1/prometheus", id="tenant in the path"),
        pytest.param(f"http://{'a' * 63}.svc", f"http://{'a' * 63}.svc", id="longest label"),
    ],
)
def test_one_backend_has_one_spelling(text: str, meant: str) -> None:
    assert str(parse_url(text)) == meant
    assert parse_url(meant) == parse_url(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", FORM, id="empty"),
        pytest.param("prometheus:9090", FORM, id="no scheme"),
        pytest.param("//prometheus", FORM, id="no scheme, two slashes"),
        pytest.param("ftp://prometheus", FORM, id="other scheme"),
        pytest.param("file:///etc/passwd", FORM, id="file"),
        pytest.param("http:///path", FORM, id="no host"),
        pytest.param("http://user:pw@prometheus", FORM, id="user"),
        pytest.param("http://prometheus@evil", FORM, id="host as a user"),
        pytest.param("http://prometheus?x=1", FORM, id="query"),
        pytest.param("http://prometheus/?", FORM, id="empty query"),
        pytest.param("http://prometheus#x", FORM, id="fragment"),
        pytest.param("http://prometheus\\@evil", FORM, id="backslash"),
        pytest.param("http://prom etheus", FORM, id="blank"),
        pytest.param(" http://prometheus", FORM, id="blank before"),
        pytest.param("http://prometheus\n", FORM, id="line break after"),
        pytest.param("http://prometheus\r\nHost: evil", FORM, id="header smuggled in"),
        pytest.param("http://prometheus\x00.svc", FORM, id="null byte"),
        pytest.param("http://prom%65theus", FORM, id="percent in the host"),
        pytest.param("http://prometheus/%2e%2e/admin", FORM, id="percent in the path"),
        pytest.param("http://prometheus//evil", FORM, id="empty segment"),
        pytest.param("http://prometheus/..;/admin", FORM, id="semicolon"),
        pytest.param("http://prometheus/a/../b", "the path must not go up with ..", id="going up"),
        pytest.param("http://prometheus/.", "the path must not go up with ..", id="dot at the end"),
        pytest.param("http://prömetheus", FORM, id="not ASCII"),
        pytest.param("http://prometheus.svc。evil", FORM, id="ideographic full stop"),
        pytest.param("http://\N{KELVIN SIGN}ube.svc", FORM, id="letter that lower case turns into k"),
        pytest.param("http://prometheus:", FORM, id="no port after the colon"),
        pytest.param("http://prometheus:0", "the port is not between 1 and 65535", id="port 0"),
        pytest.param("http://prometheus:65536", "the port is not between 1 and 65535", id="port too high"),
        pytest.param("http://prometheus:+80", FORM, id="port with a sign"),
        pytest.param("http://prometheus:８０", FORM, id="port in other digits"),
        pytest.param("http://a..svc", HOST, id="empty label"),
        pytest.param("http://prometheus..", HOST, id="two trailing dots"),
        pytest.param("http://.", HOST, id="a dot"),
        pytest.param("http://-a.svc", HOST, id="label starts with a dash"),
        pytest.param(f"http://{'a' * 64}.svc", HOST, id="label too long"),
        pytest.param(f"http://{'a.' * 127}svc", HOST, id="name too long"),
        pytest.param("http://2130706433", HOST, id="address as one number"),
        pytest.param("http://0x7f.1", HOST, id="address in hexadecimal, short"),
        pytest.param("http://0x7f000001", HOST, id="address in hexadecimal"),
        pytest.param("http://127.1", HOST, id="short address"),
        pytest.param("http://0177.0.0.1", HOST, id="address in octal"),
        pytest.param("http://256.0.0.1", HOST, id="no byte"),
        pytest.param("http://[::1", FORM, id="open bracket"),
        pytest.param("http://[::1%25eth0]", FORM, id="zone"),
        pytest.param("http://[127.0.0.1]", HOST, id="IPv4 in brackets"),
        pytest.param("http://[1:2]", HOST, id="no IPv6"),
        pytest.param("http://*.svc", FORM, id="wildcard"),
        pytest.param(f"http://prometheus/{'a' * LONGEST}", FORM, id="too long"),
    ],
)
def test_everything_else_is_refused_without_being_repeated(text: str, why: str) -> None:
    with pytest.raises(InvalidUrl) as refused:
        parse_url(text)
    assert str(refused.value) == why


@given(st.text())
def test_any_text_is_refused_or_has_one_spelling(text: str) -> None:
    for attempt in (text, f"http://{text}", f"http://a.svc{text}", f"http://a.svc/{text}"):
        try:
            url = parse_url(attempt)
        except InvalidUrl:
            continue
        assert parse_url(str(url)) == url


DEFAULT = "http://127.0.0.1:9090/prometheus"
SHIPPED = str(Settings.model_fields["prometheus_allowed_urls"].default)


@pytest.mark.parametrize(
    ("patterns", "url", "allowed"),
    [
        pytest.param("", "http://127.0.0.1:9090/prometheus/", True, id="the default URL needs no pattern"),
        pytest.param("", "http://127.0.0.1:9090", False, id="another path of the default host does"),
        pytest.param("", "http://127.0.0.1:9091/prometheus", False, id="another port of the default host does"),
        pytest.param("", "https://127.0.0.1:9090/prometheus", False, id="another scheme of the default host does"),
        pytest.param("", "http://a.b.svc", False, id="no pattern, nothing else"),
        pytest.param(SHIPPED, "http://prometheus.monitoring.svc:9090", True, id="shipped: a service"),
        pytest.param(SHIPPED, "https://mimir.m.svc.cluster.local/prometheus", True, id="shipped: a service, in full"),
        pytest.param(SHIPPED, "http://PROMETHEUS.monitoring.SVC.:9090", True, id="shipped: other spelling"),
        pytest.param(SHIPPED, "http://svc", False, id="shipped: something must stand for the wildcard"),
        pytest.param(SHIPPED, "http://xsvc", False, id="shipped: the dot is a dot"),
        pytest.param(SHIPPED, "http://a.svc.evil.com", False, id="shipped: the name ends there"),
        pytest.param(SHIPPED, "http://evil.com/a.svc", False, id="shipped: a service in the path"),
        pytest.param(SHIPPED, "http://a.svcXcluster.local", False, id="shipped: each dot is a dot"),
        pytest.param(SHIPPED, "http://prometheus", False, id="shipped: a bare name"),
        pytest.param(SHIPPED, "http://prometheus.monitoring", False, id="shipped: a short name"),
        pytest.param(SHIPPED, "http://10.96.0.7", False, id="shipped: an address"),
        pytest.param(SHIPPED, "http://169.254.169.254", False, id="shipped: metadata"),
        pytest.param(SHIPPED, "http://metadata.google.internal", False, id="shipped: metadata by name"),
        pytest.param(SHIPPED, "http://localhost:9090", False, id="shipped: localhost"),
        pytest.param(SHIPPED, "http://[::1]", False, id="shipped: IPv6"),
        pytest.param("http://*", "http://prometheus.example.com:1/x", True, id="any host"),
        pytest.param("http://*", "https://prometheus.example.com", False, id="any host, but http"),
        pytest.param("http://*", "http://[fd00::7]", False, id="a wildcard has no colon"),
        pytest.param("http://p*s.example.com", "http://prometheus.example.com", True, id="wildcard within"),
        pytest.param("http://p*s.example.com", "http://ps.example.com", False, id="a wildcard is one or more"),
        pytest.param("http://*.a.*.com", "http://x.y.a.b.com", True, id="two wildcards"),
        pytest.param("http://P.Example.com.", "http://p.example.com", True, id="patterns in capitals"),
        pytest.param("http://p:9090", "http://p:9090/x", True, id="port as given"),
        pytest.param("http://p:9090", "http://p:9091", False, id="another port"),
        pytest.param("http://p:80", "http://p", True, id="the usual port"),
        pytest.param("http://p:*", "http://p:1", True, id="any port, said so"),
        pytest.param("http://p/prometheus", "http://p/prometheus/", True, id="path as given"),
        pytest.param("http://p/prometheus", "http://p", False, id="no path"),
        pytest.param("http://p/prometheus", "http://p/prometheus/x", False, id="further path"),
        pytest.param("http://p/prometheus", "http://p/prometheusx", False, id="longer path"),
        pytest.param("http://p/", "http://p", True, id="only the root: the root"),
        pytest.param("http://p/", "http://p/x", False, id="only the root: a path"),
        pytest.param("http://p/select/*/prometheus", "http://p/select/7/prometheus", True, id="tenant"),
        pytest.param("http://p/select/*/prometheus", "http://p/select/7/8/prometheus", False, id="no slash in *"),
        pytest.param("http://[::1]:9090", "http://[0:0::1]:9090", True, id="IPv6 by name"),
        pytest.param(" http://a , ,http://b", "http://b", True, id="blanks between patterns"),
        pytest.param("http://a.b", "http://a-b", False, id="no regular expression"),
    ],
)
def test_allowed_is_what_matches_a_pattern_and_the_default(patterns: str, url: str, allowed: bool) -> None:
    assert AllowedUrls(parse_url(DEFAULT), parse_patterns(patterns)).allows(parse_url(url)) is allowed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("*", "pattern 1: write http(s)://host", id="no scheme"),
        pytest.param("http://*.svc,*.svc", "pattern 2: write http(s)://host", id="the second"),
        pytest.param("*://a", "pattern 1: write http(s)://host", id="any scheme"),
        pytest.param("http://u:secret@a", "pattern 1: write http(s)://host", id="user"),
        pytest.param("http://a?*", "pattern 1: write http(s)://host", id="query"),
        pytest.param("http://[*]", "pattern 1: write http(s)://host", id="wildcard in IPv6"),
        pytest.param("http://a:99999", "pattern 1: the port is not between 1 and 65535", id="port"),
        pytest.param("http://2130706433", f"pattern 1: {HOST}", id="odd address"),
        pytest.param("http://a/../b", "pattern 1: the path must not go up with ..", id="going up"),
    ],
)
def test_a_wrong_pattern_is_named_by_its_place(text: str, why: str) -> None:
    with pytest.raises(InvalidUrl) as refused:
        parse_patterns(text)
    assert str(refused.value).startswith(why)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "fenced_off"),
    [
        pytest.param("10.96.0.7", False, id="a service"),
        pytest.param("192.168.1.1", False, id="a private network"),
        pytest.param("8.8.8.8", False, id="the internet"),
        pytest.param("fd00::7", False, id="a service, IPv6"),
        pytest.param("127.0.0.1", True, id="loopback"),
        pytest.param("127.8.9.1", True, id="any loopback"),
        pytest.param("::1", True, id="loopback, IPv6"),
        pytest.param("::ffff:127.0.0.1", True, id="loopback, mapped"),
        pytest.param("::ffff:7f00:1", True, id="loopback, mapped, in hexadecimal"),
        pytest.param("64:ff9b::7f00:1", True, id="loopback, translated"),
        pytest.param("2002:7f00:1::", True, id="loopback, 6to4"),
        pytest.param("64:ff9b::a60:7", False, id="a service, translated"),
        pytest.param("0.0.0.0", True, id="unspecified"),
        pytest.param("::", True, id="unspecified, IPv6"),
        pytest.param("169.254.169.254", True, id="metadata"),
        pytest.param("169.254.1.1", True, id="link-local"),
        pytest.param("::ffff:169.254.169.254", True, id="metadata, mapped"),
        pytest.param("fe80::1", True, id="link-local, IPv6"),
        pytest.param("fe80::1%eth0", True, id="link-local, with a zone"),
        pytest.param("fd00:ec2::254", True, id="metadata, IPv6"),
        pytest.param("100.100.100.200", True, id="metadata, Alibaba"),
        pytest.param("224.0.0.1", True, id="multicast"),
        pytest.param("ff02::1", True, id="multicast, IPv6"),
        pytest.param("somewhere", True, id="no address at all"),
    ],
)
def test_the_fence_knows_every_spelling_of_an_address(address: str, fenced_off: bool) -> None:
    assert is_fenced_off(address) is fenced_off


def test_names_are_resolved_by_the_system() -> None:
    assert asyncio.run(resolve("127.0.0.1", 80)) == ["127.0.0.1"]
    assert asyncio.run(resolve("::1", 80)) == ["::1"]
