"""Serving over TLS: the certificate of the moment, also after it was renewed."""

import io
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hooks.__main__ import main
from hooks.service.logs import make_logger
from hooks.service.settings import Settings
from hooks.service.tls import ServerCertificate
from tests.e2e.certificates import write_certificates


def issue(folder: Path, number: int) -> Path:
    """A new certificate in place; returns the file of the only authority that vouches for it."""
    made = folder / str(number)
    made.mkdir()
    certificates = write_certificates(made)
    (folder / "tls.crt").write_bytes(certificates.serving_certificate.read_bytes())
    (folder / "tls.key").write_bytes(certificates.serving_key.read_bytes())
    return certificates.ca_file


def serve(folder: Path) -> tuple[ServerCertificate, io.StringIO]:
    log = io.StringIO()
    logger = make_logger(Settings(log_format="json"), log)
    return ServerCertificate(str(folder / "tls.crt"), str(folder / "tls.key"), logger), log


def shows(certificate: ServerCertificate, authority: Path, name: str | None = "localhost") -> bool:
    """Whether a client that trusts this authority alone accepts the certificate that it is shown."""
    client = ssl.create_default_context(cafile=str(authority))
    client.check_hostname = name is not None
    here, there = socket.socketpair()
    with closing(here), closing(there), ThreadPoolExecutor(1) as server:
        handshake = server.submit(certificate.context.wrap_socket, there, server_side=True)
        try:
            client.wrap_socket(here, server_hostname=name).close()
        except ssl.SSLCertVerificationError:
            here.close()
            assert handshake.exception() is not None
            return False
        handshake.result().close()
    return True


@pytest.mark.parametrize("name", ["localhost", None], ids=["by name", "without a name"])
def test_shows_the_certificate_of_the_moment(tmp_path: Path, name: str | None) -> None:
    old = issue(tmp_path, 1)
    certificate, log = serve(tmp_path)
    assert shows(certificate, old, name)
    new = issue(tmp_path, 2)

    assert shows(certificate, new, name)
    assert not shows(certificate, old, name)
    assert log.getvalue().count("the certificate was renewed") == 1


def test_goes_on_with_the_old_one_while_the_new_one_cannot_be_read(tmp_path: Path) -> None:
    old = issue(tmp_path, 1)
    certificate, log = serve(tmp_path)
    (tmp_path / "tls.crt").write_text("half of a certifi")
    assert shows(certificate, old)
    (tmp_path / "tls.crt").unlink()
    assert shows(certificate, old)
    new = issue(tmp_path, 2)

    assert shows(certificate, new)
    assert "cannot be used yet" in log.getvalue()


def test_serve_says_what_is_wrong_with_its_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "tls.crt")
    assert main(["serve", "--port", "0", "--tls-certificate-file", missing, "--tls-key-file", missing]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_serve_wants_both_files_or_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--tls-key-file", "key.pem"]) == 2
    assert capsys.readouterr().err == (
        "serve: cannot use the certificate and its key: give both tls-certificate-file and tls-key-file, or neither\n"
    )
