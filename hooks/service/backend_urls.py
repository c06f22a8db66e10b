"""Which URLs of Prometheus may be asked: the server's own, and those of autoscalers that match an allowed pattern.

A namespace editor writes `prometheusURL`, and the server sends the request from where it stands. What a URL may look
like is therefore said by one narrow expression, and everything else is refused. A wildcard never opens the way to the
server itself or to the metadata of its cloud: names that resolve there are fenced off unless a pattern writes the host
out. The fence is not a wall: a name may resolve to another address a moment later, when the connection is made.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

LONGEST = 2000
_PORTS = {"http": 80, "https": 443}
_FORM = "{scheme}://{host}(?::(?P<port>{port}))?(?P<path>{path})"
_URL = re.compile(
    _FORM.format(
        scheme="(?P<scheme>https?)",
        host=r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)",
        port="[0-9]{1,5}",
        path=r"(?:/[a-z0-9._~:=+-]+)*/*",  # without %, so that nothing hides in it
    ),
    re.ASCII | re.IGNORECASE,
)
_PATTERN = re.compile(
    _FORM.format(
        scheme="(?P<scheme>https?)",
        host=r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_.*-]+)",
        port=r"[0-9]{1,5}|\*",
        path=r"(?:/[a-z0-9._~:=+*-]+)*/*",
    ),
    re.ASCII | re.IGNORECASE,
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_METADATA = frozenset(ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200"))
_TRANSLATED = IPv6Network("64:ff9b::/96")

Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""The addresses of a host and port; OSError if there are none."""


class InvalidUrl(ValueError):
    """The text is no URL, or no pattern of URLs, that a backend can have. The message does not repeat it."""


@dataclass(frozen=True, slots=True)
class BackendUrl:
    """Where a backend answers, in one spelling per backend."""

    scheme: str
    host: str  # lower case, without the trailing dot; an IPv6 address without its brackets
    port: int
    path: str  # the prefix before /api/v1, without the trailing slash

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    def __str__(self) -> str:
        return self.origin + self.path


@dataclass(frozen=True, slots=True)
class Pattern:
    scheme: str
    host: str  # `*` stands for one or more characters, dots among them
    port: int | None  # None allows any
    path: str | None  # None allows any; `*` stands for one or more characters other than /

    @property
    def is_named(self) -> bool:
        return "*" not in self.host

    def matches(self, url: BackendUrl) -> bool:
        return (
            url.scheme == self.scheme
            and _fits(self.host, url.host)
            and self.port in (None, url.port)
            and (self.path is None or _fits(self.path, url.path))
        )


@dataclass(frozen=True, slots=True)
class AllowedUrls:
    default: BackendUrl
    patterns: Sequence[Pattern]

    def allows(self, url: BackendUrl) -> bool:
        return url == self.default or any(pattern.matches(url) for pattern in self.patterns)

    async def fences_off(self, url: BackendUrl, resolve: Resolve) -> bool:
        """Whether the host leads where only a host may lead that the settings write out."""
        if url == self.default or any(pattern.is_named and pattern.matches(url) for pattern in self.patterns):
            return False
        return any(is_fenced_off(address) for address in await resolve(url.host, url.port))


def parse_url(text: str) -> BackendUrl:
    found = _URL.fullmatch(text) if len(text) <= LONGEST else None
    if not found:
        raise InvalidUrl("write http(s)://host[:port][/path], without user, query or fragment")
    scheme, port = found["scheme"].lower(), found["port"]
    return BackendUrl(
        scheme=scheme,
        host=_parse_host(found["host"]),
        port=_PORTS[scheme] if port is None else _parse_port(port),
        path=_parse_path(found["path"]),
    )


def parse_patterns(text: str) -> tuple[Pattern, ...]:
    """The comma-separated patterns of the setting."""
    patterns = []
    for number, part in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        try:
            patterns.append(_parse_pattern(part))
        except InvalidUrl as error:
            raise InvalidUrl(f"pattern {number}: {error}") from None
    return tuple(patterns)


async def resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def is_fenced_off(address: str) -> bool:
    """Whether it is the server itself, its link, many at once, nobody, or the metadata of a cloud."""
    try:
        found = _unwrapped(ip_address(address))
    except ValueError:
        return True
    return found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified or found in _METADATA


def _parse_pattern(text: str) -> Pattern:
    found = _PATTERN.fullmatch(text)
    if not found:
        raise InvalidUrl("write http(s)://host[:port][/path], with * for one or more characters of host or path")
    host, port, path = found["host"].lower(), found["port"], found["path"]
    return Pattern(
        scheme=found["scheme"].lower(),
        host=host.removesuffix(".") if "*" in host else _parse_host(host),
        port=None if port in (None, "*") else _parse_port(port),
        path=_parse_path(path) if path else None,
    )


def _parse_host(text: str) -> str:
    host = text.lower().removesuffix(".")
    if host.startswith("["):
        return _parse_address(IPv6Address, host[1:-1])
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # resolvers read 2130706433 and 0x7f.1 as addresses
        return _parse_address(IPv4Address, host)
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise InvalidUrl("the host is neither a name nor an address")
    return host


def _parse_address(version: type[IPv4Address | IPv6Address], text: str) -> str:
    try:
        return str(version(text))
    except ValueError:
        raise InvalidUrl("the host is neither a name nor an address") from None


def _parse_port(text: str) -> int:
    if not 0 < int(text) < 65536:
        raise InvalidUrl("the port is not between 1 and 65535")
    return int(text)


def _parse_path(text: str) -> str:
    path = text.rstrip("/")
    if {".", ".."} & set(path.split("/")):
        raise InvalidUrl("the path must not go up with ..")
    return path


def _fits(pattern: str, text: str) -> bool:
    expression = "[^/@:?#]+".join(map(re.escape, pattern.split("*")))
    return re.fullmatch(expression, text) is not None


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that is meant by an IPv6 address that carries one."""
    if isinstance(address, IPv4Address):
        return address
    translated = IPv4Address(int(address) & 0xFFFFFFFF) if address in _TRANSLATED else None
    return address.ipv4_mapped or address.sixtofour or translated or address
