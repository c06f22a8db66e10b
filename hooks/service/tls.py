"""Serving over TLS, with a certificate that may be renewed while the server runs."""

import ssl
from pathlib import Path

from hooks.service.logs import Logger


class ServerCertificate:
    """A certificate and its key in two files, looked at again at every handshake.

    What cannot be read while the files are being replaced is left for the next handshake; the old one serves meanwhile.
    """

    def __init__(self, certificate_file: str, key_file: str, logger: Logger) -> None:
        self._files = (certificate_file, key_file)
        self._logger = logger
        self._stamp = self._stamp_now()
        self._newest = self._load()
        self.context = self._load()
        """For the server. Raises OSError or ssl.SSLError at once if the files cannot be used."""
        self.context.sni_callback = self._on_handshake

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self._files)
        return context

    def _stamp_now(self) -> list[tuple[int, int]]:
        """Kubernetes replaces the files of a Secret by moving a link: the inode changes."""
        stats = [Path(file).stat() for file in self._files]
        return [(stat.st_ino, stat.st_mtime_ns) for stat in stats]

    def _on_handshake(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        self._refresh()
        connection.context = self._newest

    def _refresh(self) -> None:
        try:
            stamp = self._stamp_now()
            if stamp == self._stamp:
                return
            self._newest, self._stamp = self._load(), stamp
        except (OSError, ssl.SSLError) as error:
            self._logger.warning("the new certificate cannot be used yet", why=type(error).__name__)
        else:
            self._logger.info("the certificate was renewed")
