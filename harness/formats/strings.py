"""Connection strings, and concerns as documents: what is valid, what is warned of, and what comes of it.

Connection String, URI Options, Authentication, Read and Write Concern: their tests differ in what they look
at, not in how. The last has tests of both: of strings, and of the documents that they stand for.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from driver.concerns import ReadConcern, WriteConcern
from driver.errors import ConfigurationError, InvalidArgumentError
from driver.options import CANONICAL, OPTIONS, ClientOptions, read_options
from harness.formats.case import Runs, failure, require
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.uri import ParsedURI
    from harness.formats.case import Notes
    from mongowire.documents.marks import Marked

# Reading a string gives options; a credential and concerns need the options of the whole client, with their
# defaults and the checks of one against another.
_OF_CLIENTS = ("credential", "readConcern", "writeConcern")
"""What a string says of a client, beyond its options."""


def runs(case: Marked) -> Runs:
    """Return what runs a case."""
    return Runs(partial(_check, case))


def runs_of_concerns(case: Marked) -> Runs:
    """Return what runs a case whose concern is a document."""
    return Runs(partial(_check_concern, case))


def _check(case: Marked, _notes: Notes) -> None:
    """Compare what becomes of a connection string with what the case says.

    A string that is not valid may be refused at either step, when it is read or when a client is made of it,
    so that a case which expects an error takes both. Options that are merely unknown or unusable are warnings
    and no errors.
    """
    value = case.value
    try:
        parsed, found, warnings = read_options(value["uri"], {})
        if not value["valid"] or any(name in value for name in _OF_CLIENTS):
            options, warnings = ClientOptions.of_uri(value["uri"])
    except ConfigurationError as refusal:
        if value["valid"]:
            raise failure(case["uri"], f"expected no error, got: {refusal}") from refusal
        return
    if not value["valid"]:
        raise failure(case["valid"], "expected an error, got none")
    if (expected := case.get("warning")) is not None:
        require(expected, bool(warnings), wanted=bool(expected.value), of=f"warnings {warnings}")
    _check_string(case, parsed, found)
    if any(name in value for name in _OF_CLIENTS):
        if (credential := case.get("credential")) is not None:
            _check_credential(credential, options.credential)
        if (concern := case.get("readConcern")) is not None:
            require(concern, options.concerns.read_concern, wanted=ReadConcern.of_document(concern.value))
        if (concern := case.get("writeConcern")) is not None:
            require(concern, options.concerns.write_concern, wanted=WriteConcern.of_document(concern.value))


def _check_string(case: Marked, parsed: ParsedURI, found: Mapping[str, Any]) -> None:
    """Compare hosts, credentials and options as they were read, under the driver's names for them.

    Raises `ScenarioError` for an option that the driver does not know: its value could not be compared, and
    the case would pass untested.
    """
    if (hosts := _asserted(case, "hosts")) is not None:
        require(hosts, list(parsed.hosts), wanted=[_address(host) for host in hosts.value])
    if (auth := _asserted(case, "auth")) is not None:
        # In these tests "db" is all that follows the slash, up to the question mark; the driver parts it at
        # the first dot.
        namespace = ".".join(filter(None, (parsed.database, parsed.collection))) or None
        require(auth["username"], parsed.username)
        require(auth["password"], parsed.password)
        require(auth["db"], namespace)
    if (options := _asserted(case, "options")) is not None:
        for name, value in options.value.items():
            if name.lower() not in CANONICAL:
                place = options[name].location
                raise ScenarioError(f"the option {name} is unknown to the driver", location=place)
            canonical = CANONICAL[name.lower()]
            # The expected value goes through the driver's own reader of this option, so that units and types
            # are the same.
            require(options[name], found.get(canonical), wanted=OPTIONS[canonical][0](value))


def _check_credential(expected: Marked, found: Any) -> None:
    # A case with null expects that there is no credential at all.
    if found is None or expected.value is None:
        require(expected, found)
        return
    for name in ("username", "password", "source", "mechanism"):
        require(expected[name], getattr(found, name))
    properties = expected["mechanism_properties"]
    require(properties, dict(found.properties), wanted=properties.value or {})


def _asserted(case: Marked, name: str) -> Marked | None:
    """Return a part of a case that asserts something: here, null does not."""
    part = case.get(name)
    return None if part is None or part.value is None else part


def _address(host: Mapping[str, Any]) -> str:
    """Return a host as the driver writes it.

    Without a port it has 27017. Names of hosts are in lower case, as DNS does not tell cases apart; the path
    of a socket stays as it is.
    """
    name, port = host["host"], host.get("port") or 27017
    match host["type"]:
        case "unix":
            return str(name)
        case "ip_literal":
            return f"[{name}]:{port}"
        case _:
            return f"{name.lower()}:{port}"


def _check_concern(case: Marked, _notes: Notes) -> None:
    """Compare what becomes of a concern: whether it is valid, what is sent, and what it means."""
    name = "readConcern" if "readConcern" in case.value else "writeConcern"
    made: type[ReadConcern | WriteConcern] = ReadConcern if name == "readConcern" else WriteConcern
    try:
        concern = made.of_document(case.value.get(name, {}))
    except InvalidArgumentError as refusal:
        if case.value["valid"]:
            raise failure(case[name], f"expected no error, got: {refusal}") from refusal
        return
    if not case.value["valid"]:
        raise failure(case["valid"], f"expected an error, got {concern}")
    require(case[f"{name}Document"], concern.to_document())
    if (expected := case.get("isServerDefault")) is not None:
        require(expected, concern.is_server_default)
    if isinstance(concern, WriteConcern) and (expected := case.get("isAcknowledged")) is not None:
        require(expected, concern.acknowledged)
