"""The options of a client: one table from URI names to the fields of a frozen value.

Times in `ClientOptions` are in seconds; their URI names say their unit. An option with a value that cannot
be used is left out and reported as a warning; options that contradict each other are an error
(URI Options).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from driver import uri as values
from driver.auth import SUPPORTED, Credential, credential_of
from driver.concerns import Concerns, ReadConcern, ReadMode, ReadPreference, WriteConcern
from driver.errors import ConfigurationError
from driver.uri import TlsOptions, parse_uri
from mongowire import compression

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from driver.uri import ParsedURI

    Check: TypeAlias = Callable[[ParsedURI, Mapping[str, Any]], object]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Everything that a client is configured with; see URI Options for each name."""

    seeds: tuple[str, ...] = ("localhost:27017",)
    app_name: str | None = None
    compressors: tuple[str, ...] = ()
    zlib_compression_level: int = -1
    connect_timeout: float = 10.0
    socket_timeout: float | None = None
    timeout: float | None = None
    server_selection_timeout: float = 30.0
    heartbeat_frequency: float = 10.0
    local_threshold: float = 0.015
    server_monitoring_mode: str = "auto"
    max_pool_size: int = 100
    min_pool_size: int = 0
    max_connecting: int = 2
    max_idle_time: float = 0.0
    wait_queue_timeout: float = 0.0
    replica_set: str | None = None
    direct_connection: bool = False
    load_balanced: bool = False
    retry_reads: bool = True
    retry_writes: bool = True
    adaptive_retries: bool = False
    max_adaptive_retries: int | None = None
    overload_retargeting: bool = False
    credential: Credential | None = None
    tls: TlsOptions | None = None
    concerns: Concerns = field(default_factory=Concerns)
    default_database: str | None = None
    srv: bool = False
    proxy_host: str | None = None

    @classmethod
    def of_uri(
        cls, uri: str, overrides: Mapping[str, Any] | None = None
    ) -> tuple[ClientOptions, tuple[str, ...]]:
        """Return the options in a connection string, and warnings about what was ignored in it.

        `overrides` has URI names too and wins over the string. Raises ConfigurationError, but not yet for
        what this driver lacks: see `refuse_unsupported`.
        """
        parsed, chosen, warnings = read_options(uri, overrides or {})
        _refuse_impossible_concern(parsed, overrides or {})
        fields = {FIELDS[name]: value for name, value in chosen.items() if name in FIELDS}
        concerns = _concerns(chosen)
        return (
            cls(
                seeds=parsed.hosts,
                default_database=parsed.database,
                srv=parsed.srv,
                credential=credential_of(parsed, chosen),
                tls=TlsOptions.of(chosen),
                concerns=concerns,
                **fields,
            ),
            warnings,
        )

    def refuse_unsupported(self) -> None:
        """Raise ConfigurationError for an option that is valid, but that this driver does nothing with."""
        for message, applies in UNSUPPORTED:
            if applies(self):
                raise ConfigurationError(message)


def read_options(
    uri: str, overrides: Mapping[str, Any]
) -> tuple[ParsedURI, Mapping[str, Any], tuple[str, ...]]:
    """Return the parts of a connection string, its usable options by name, and warnings about the others.

    Raises ConfigurationError for a string that is malformed or contradicts itself. Whether the options name
    a user as its mechanism needs is for `ClientOptions` to say.
    """
    parsed = parse_uri(uri)
    chosen, warnings = _validated(parsed, overrides)
    for message, applies in CONTRADICTIONS:
        if applies(parsed, chosen):
            raise ConfigurationError(message)
    return parsed, chosen, (*parsed.warnings, *warnings)


OPTIONS: dict[str, tuple[values.Validator, str | None]] = {
    "adaptiveRetries": (values.boolean, "adaptive_retries"),
    "appName": (values.text, "app_name"),
    "authMechanism": (values.text, None),
    "authMechanismProperties": (values.properties, None),
    "authSource": (values.text, None),
    "compressors": (values.one_or_more(compression.Compressor.named), "compressors"),
    "connectTimeoutMS": (values.milliseconds, "connect_timeout"),
    "directConnection": (values.boolean, "direct_connection"),
    "enableOverloadRetargeting": (values.boolean, "overload_retargeting"),
    "heartbeatFrequencyMS": (values.milliseconds, "heartbeat_frequency"),
    "journal": (values.boolean, None),
    "loadBalanced": (values.boolean, "load_balanced"),
    "localThresholdMS": (values.milliseconds, "local_threshold"),
    "maxAdaptiveRetries": (values.at_least(0), "max_adaptive_retries"),
    "maxConnecting": (values.at_least(1), "max_connecting"),
    "maxIdleTimeMS": (values.milliseconds, "max_idle_time"),
    "maxPoolSize": (values.at_least(0), "max_pool_size"),
    "maxStalenessSeconds": (values.staleness, None),
    "minPoolSize": (values.at_least(0), "min_pool_size"),
    "proxyHost": (values.text, "proxy_host"),
    "proxyPassword": (values.text, None),
    "proxyPort": (values.at_least(0), None),
    "proxyUsername": (values.text, None),
    "readConcernLevel": (values.text, None),
    "readPreference": (values.one_of(*(mode.value for mode in ReadMode)), None),
    "readPreferenceTags": (values.tag_sets, None),
    "replicaSet": (values.text, "replica_set"),
    "retryReads": (values.boolean, "retry_reads"),
    "retryWrites": (values.boolean, "retry_writes"),
    "serverMonitoringMode": (values.one_of("auto", "stream", "poll"), "server_monitoring_mode"),
    "serverSelectionTimeoutMS": (values.milliseconds, "server_selection_timeout"),
    "serverSelectionTryOnce": (values.boolean, None),
    "socketTimeoutMS": (values.milliseconds, "socket_timeout"),
    "srvMaxHosts": (values.at_least(0), None),
    "srvServiceName": (values.text, None),
    "ssl": (values.boolean, None),
    "timeoutMS": (values.milliseconds, "timeout"),
    "tls": (values.boolean, None),
    "tlsAllowInvalidCertificates": (values.boolean, None),
    "tlsAllowInvalidHostnames": (values.boolean, None),
    "tlsCAFile": (values.text, None),
    "tlsCertificateKeyFile": (values.text, None),
    "tlsCertificateKeyFilePassword": (values.text, None),
    "tlsDisableCertificateRevocationCheck": (values.boolean, None),
    "tlsDisableOCSPEndpointCheck": (values.boolean, None),
    "tlsInsecure": (values.boolean, None),
    "w": (values.write_concern_w, None),
    "waitQueueTimeoutMS": (values.milliseconds, "wait_queue_timeout"),
    "wTimeoutMS": (values.at_least(0), None),
    "zlibCompressionLevel": (values.between(-1, 9), "zlib_compression_level"),
}
FIELDS = {name: field_name for name, (_, field_name) in OPTIONS.items() if field_name is not None}
CANONICAL = {name.lower(): name for name in OPTIONS}
REPEATABLE = frozenset({"readPreferenceTags"})
NO_REPETITION = frozenset({"proxyHost", "proxyPort", "proxyUsername", "proxyPassword"})


def _validated(parsed: ParsedURI, overrides: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the usable options by canonical name, and a warning for each that was left out."""
    raw, warnings = _collected(parsed)
    raw.update({_canonical(name): value for name, value in overrides.items()})
    chosen: dict[str, Any] = {}
    for name, value in raw.items():
        try:
            chosen[name] = OPTIONS[name][0](value)
        except ValueError as error:
            warnings.append(f"option {name} is ignored: {error}")
    if "ssl" in chosen:
        chosen.setdefault("tls", chosen["ssl"])
    return chosen, warnings


def _refuse_impossible_concern(parsed: ParsedURI, overrides: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for a write concern with a negative number.

    URI Options has a warning for such an option, as for any other. Read and Write Concern refuses the concern
    that it would make: less would be written safely than was asked for, without a word from the server.
    """
    raw = {**_collected(parsed)[0], **{_canonical(name): value for name, value in overrides.items()}}
    for name in ("w", "wTimeoutMS"):
        if values.is_negative(raw.get(name)):
            raise ConfigurationError(f"{name} cannot be negative: {raw[name]}")


def _canonical(name: str) -> str:
    try:
        return CANONICAL[name.lower()]
    except KeyError:
        raise ConfigurationError(f"unknown option {name!r}; {len(OPTIONS)} options are known") from None


def _collected(parsed: ParsedURI) -> tuple[dict[str, Any], list[str]]:
    raw: dict[str, Any] = {}
    warnings: list[str] = []
    for written, value in parsed.options:
        name = CANONICAL.get(written.lower())
        if name is None:
            warnings.append(f"option {written} is ignored: this driver knows no such option")
        elif name in REPEATABLE:
            raw.setdefault(name, []).append(value)
        elif name in raw and name in NO_REPETITION:
            raise ConfigurationError(f"option {name} appears more than once")
        # The first value wins for all others. Of these two a client that took the wrong one would be
        # insecure.
        elif name in raw and name in {"tls", "ssl"}:
            if raw[name] != value:
                raise ConfigurationError(f"option {name} appears with different values")
        elif name in raw:
            warnings.append(f"option {name} appears more than once; the first value is used")
        else:
            raw[name] = value
    return raw, warnings


def _concerns(chosen: Mapping[str, Any]) -> Concerns:
    mode = ReadMode(chosen.get("readPreference", ReadMode.PRIMARY.value))
    return Concerns(
        ReadPreference(mode, chosen.get("readPreferenceTags", ()), chosen.get("maxStalenessSeconds")),
        ReadConcern(chosen.get("readConcernLevel")),
        WriteConcern(chosen.get("w"), chosen.get("journal"), chosen.get("wTimeoutMS")),
        chosen.get("timeoutMS"),
    )


_REVOCATION = frozenset({"tlsDisableOCSPEndpointCheck", "tlsDisableCertificateRevocationCheck"})
_RELAXATIONS = _REVOCATION | {"tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames"}
_PROXY = frozenset({"proxyPort", "proxyUsername", "proxyPassword"})

CONTRADICTIONS: tuple[tuple[str, Check], ...] = (
    (
        "directConnection=true cannot be used with several hosts",
        lambda uri, chosen: chosen.get("directConnection") and len(uri.hosts) > 1,
    ),
    (
        "directConnection=true cannot be used with SRV",
        lambda uri, chosen: chosen.get("directConnection") and uri.srv,
    ),
    (
        "loadBalanced=true cannot be used with several hosts",
        lambda uri, chosen: chosen.get("loadBalanced") and len(uri.hosts) > 1,
    ),
    (
        "loadBalanced=true cannot be used with directConnection=true",
        lambda _uri, chosen: chosen.get("loadBalanced") and chosen.get("directConnection"),
    ),
    (
        "loadBalanced=true cannot be used with replicaSet",
        lambda _uri, chosen: chosen.get("loadBalanced") and "replicaSet" in chosen,
    ),
    (
        "srvServiceName and srvMaxHosts need a mongodb+srv connection string",
        lambda uri, chosen: not uri.srv and ("srvServiceName" in chosen or "srvMaxHosts" in chosen),
    ),
    (
        "srvMaxHosts cannot be used with replicaSet or loadBalanced=true",
        lambda _uri, chosen: (
            chosen.get("srvMaxHosts") and ("replicaSet" in chosen or chosen.get("loadBalanced"))
        ),
    ),
    (
        "minPoolSize cannot be larger than maxPoolSize",
        lambda _uri, chosen: 0 < chosen.get("maxPoolSize", 100) < chosen.get("minPoolSize", 0),
    ),
    (
        "w=0 cannot be used with journal=true",
        lambda _uri, chosen: chosen.get("w") == 0 and chosen.get("journal"),
    ),
    (
        "tls and ssl have different values",
        lambda _uri, chosen: "ssl" in chosen and chosen["ssl"] != chosen["tls"],
    ),
    (
        f"tlsInsecure cannot be used with {', '.join(sorted(_RELAXATIONS))}",
        lambda _uri, chosen: "tlsInsecure" in chosen and _RELAXATIONS & chosen.keys(),
    ),
    (
        f"tlsAllowInvalidCertificates cannot be used with {' or '.join(sorted(_REVOCATION))}",
        lambda _uri, chosen: "tlsAllowInvalidCertificates" in chosen and _REVOCATION & chosen.keys(),
    ),
    (
        "tlsDisableOCSPEndpointCheck cannot be used with tlsDisableCertificateRevocationCheck",
        lambda _uri, chosen: chosen.keys() >= _REVOCATION,
    ),
    (
        "proxyPort, proxyUsername and proxyPassword need proxyHost",
        lambda _uri, chosen: "proxyHost" not in chosen and _PROXY & chosen.keys(),
    ),
    (
        "proxyUsername and proxyPassword need each other",
        lambda _uri, chosen: ("proxyUsername" in chosen) != ("proxyPassword" in chosen),
    ),
)


UNSUPPORTED: tuple[tuple[str, Callable[[ClientOptions], object]], ...] = (
    ("this driver does not resolve mongodb+srv; list the hosts instead", lambda options: options.srv),
    ("this driver does not use proxies; leave out proxyHost", lambda options: options.proxy_host),
    (
        "this driver does not use Unix sockets; name a host and a port",
        lambda options: any("/" in host for host in options.seeds),
    ),
    (
        f"this driver authenticates by {', '.join(SUPPORTED)} only; use another authMechanism",
        lambda options: (
            options.credential is not None and options.credential.mechanism not in {None, *SUPPORTED}
        ),
    ),
)
