"""`pushbackd certs`: a throw-away certificate authority, for a server and clients that speak TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fakeserver.certificates import MissingExtraError, make_certificates
from harness.option_types import FilePath
from harness.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@click.command("certs")
@click.argument("folder", type=FilePath(file_okay=False))
@click.option("--client", default="client", show_default=True, help="The common name of the client.")
def command(folder: Path, client: str) -> ExitCode:
    """Make ca.pem, server.pem and client.pem in FOLDER, for tests and nothing else.

    Standard output gets the options of mongod, then of a connection string, then the name of the user on
    $external that the client's certificate speaks for.
    """
    try:
        made = make_certificates(folder, client=client)
    except (MissingExtraError, OSError, ValueError) as error:  # the name of a client has its limits too
        raise click.ClickException(str(error)) from error
    click.echo(f"--tlsMode requireTLS --tlsCertificateKeyFile {made.server_file} --tlsCAFile {made.ca_file}")
    click.echo(f"tls=true&tlsCAFile={made.ca_file}&tlsCertificateKeyFile={made.client_file}")
    click.echo(made.client_subject)
    return ExitCode.PASSED
