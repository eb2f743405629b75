"""`pushbackd certs`: a throw-away certificate authority, for a server and clients that use TLS.

`fakeserver.network.certificates` makes the files; its library is an extra, and its absence an ordinary error
here. What is printed is meant to be pasted, so each line stands for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fakeserver.network.certificates import MissingExtraError, make_certificates
from harness.commands.options.types import FilePath
from harness.commands.output import bad_input
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@click.command("certs")
@click.argument("folder", type=FilePath(file_okay=False))
@click.option(
    "--client", default="client", show_default=True, help="Common name in the client's certificate."
)
def command(folder: Path, client: str) -> ExitCode:
    """Make ca.pem, server.pem and client.pem in FOLDER, for tests only.

    Three lines are printed: the options of mongod, the options of a connection string, and the name of the
    user on $external to whom the client's certificate belongs.
    """
    with bad_input(MissingExtraError, OSError, ValueError):  # ValueError: a common name has its limits
        made = make_certificates(folder, client=client)
    click.echo(f"--tlsMode requireTLS --tlsCertificateKeyFile {made.server_file} --tlsCAFile {made.ca_file}")
    click.echo(f"tls=true&tlsCAFile={made.ca_file}&tlsCertificateKeyFile={made.client_file}")
    click.echo(made.client_subject)
    return ExitCode.PASSED
