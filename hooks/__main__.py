"""The command line: `python -m hooks serve` and `python -m hooks plan`."""

import argparse
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hooks import __version__
from hooks.service.settings import PREFIX, Settings

if TYPE_CHECKING:
    from hooks.service.tls import ServerCertificate


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    return plan(options) if options.command == "plan" else serve(options)


def plan(options: argparse.Namespace) -> int:
    from hooks.plan import run  # here, because `--help` should not wait for the server's libraries

    try:
        return run(
            options.filename or ["-"],
            options.output,
            samples=options.samples or "",
            prometheus=options.prometheus or "",
        )
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 3
    except Exception:
        traceback.print_exc()
        return 3  # not Python's own 1, which would say that something would change


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hooks", description="Kubernetes controllers as pure functions.")
    parser.add_argument("--version", action="version", version=f"metahooks {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve|plan")
    _add_serve(commands.add_parser("serve", help="answer Metacontroller over HTTP", description=SERVE))
    _add_plan(
        commands.add_parser(
            "plan",
            help="show what the hooks would change in a set of objects, without a cluster",
            description=PLAN,
            epilog=PLAN_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    return parser


SERVE = "Serve the hooks. Every flag can be given as an environment variable instead."
PLAN = """Show what the hooks would change in a set of objects, and why. Nothing is written anywhere.

Exit code: 0 if nothing would change, 1 if something would, above 1 on an error or if a policy cannot be used (as
kubectl diff). Lines that start with = say why something is left as it is."""
PLAN_EXAMPLES = """examples:
  python -m hooks plan -f examples/cluster.yaml
  python -m hooks plan -f examples/volumes.yaml --samples examples/volumes.prom
  kubectl get nodes,nodelabelpolicies -o json | python -m hooks plan -f -"""


def _add_serve(parser: argparse.ArgumentParser) -> None:
    for name, field in Settings.model_fields.items():
        variable = f"{PREFIX}{name}".upper()
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="VALUE",
            help=f"{field.description} Default: {field.default}. Variable: {variable}.",
        )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="FILE",
        help="YAML or JSON with objects, or - for standard input (the default); can be given more than once",
    )
    usage = parser.add_mutually_exclusive_group()
    usage.add_argument(
        "--samples", metavar="FILE", help="how full volumes are: kubelet_volume_stats_* in Prometheus' text format"
    )
    usage.add_argument("--prometheus", metavar="URL", help="how full volumes are: ask this Prometheus")
    parser.add_argument("-o", "--output", choices=["table", "json", "yaml"], default="table", help="default: table")


def serve(options: argparse.Namespace) -> int:
    from pydantic import ValidationError

    given = {name: value for name in Settings.model_fields if (value := getattr(options, name)) is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        for fault in error.errors():
            name = str(fault["loc"][0])
            print(f"serve: {name} ({PREFIX}{name.upper()}): {fault['msg']}", file=sys.stderr)
        return 2
    try:
        certificate = _certificate(settings)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        print(f"serve: cannot use the certificate and its key: {error}", file=sys.stderr)
        return 2
    try:
        listener = _listen(settings)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # Python repeats the address
        print(f"serve: cannot listen on {settings.host}:{settings.port}: {why}", file=sys.stderr)
        return 2
    _run(settings, listener, certificate)
    return 0


def _certificate(settings: Settings) -> "ServerCertificate | None":
    from hooks.service.logs import make_logger
    from hooks.service.tls import ServerCertificate

    certificate, key = settings.tls_certificate_file, settings.tls_key_file
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise ValueError("give both tls-certificate-file and tls-key-file, or neither")
    return ServerCertificate(certificate, key, make_logger(settings))


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=2048)


def _run(settings: Settings, listener: socket.socket, certificate: "ServerCertificate | None") -> None:
    import uvicorn

    from hooks.app import HOOKS, create_app
    from hooks.service.logs import make_logger, take_over_standard_logging
    from hooks.service.pages import invitation

    take_over_standard_logging(settings)
    port = listener.getsockname()[1]
    if settings.log_format == "text":
        print(invitation(HOOKS[0], f"localhost:{port}"), flush=True)
    make_logger(settings).info("listening", host=settings.host, port=port)
    config = uvicorn.Config(
        create_app(settings),
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        access_log=settings.access_log,
        log_config=None,
        ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())
