from __future__ import annotations

from typing import Any

import pytest

from driver import AsyncClient
from driver.concerns import ReadMode, WriteConcern
from driver.errors import ConfigurationError, InvalidArgumentError
from driver.options import OPTIONS, ClientOptions, read_options
from driver.uri import parse_uri, split_address


def options(uri: str, **overrides: object) -> ClientOptions:
    parsed, warnings = ClientOptions.of_uri(uri, overrides)
    assert warnings == ()
    return parsed


@pytest.mark.spec("CMAP-151")
def test_the_defaults_are_those_of_the_specifications() -> None:
    default = options("mongodb://localhost")
    assert default == ClientOptions()
    assert (default.retry_reads, default.retry_writes) == (True, True)
    assert (default.max_pool_size, default.min_pool_size, default.max_connecting) == (100, 0, 2)
    assert (default.server_selection_timeout, default.local_threshold) == (30.0, 0.015)
    assert default.adaptive_retries is False


def test_times_become_seconds_and_names_ignore_case() -> None:
    parsed = options("mongodb://a/?HEARTBEATfrequencyms=500&maxIdleTimeMS=1500&connectTimeoutMS=0")
    assert (parsed.heartbeat_frequency, parsed.max_idle_time, parsed.connect_timeout) == (0.5, 1.5, 0.0)


def test_concerns_come_from_their_options() -> None:
    concerns = options(
        "mongodb://a/?w=majority&journal=true&wTimeoutMS=5&readConcernLevel=local"
        "&readPreference=nearest&readPreferenceTags=dc:ny,rack:1&readPreferenceTags=&maxStalenessSeconds=90"
    ).concerns
    assert concerns.write_concern.to_document() == {"w": "majority", "j": True, "wtimeout": 5}
    assert concerns.read_concern.to_document() == {"level": "local"}
    assert concerns.read_preference.mode is ReadMode.NEAREST
    assert concerns.read_preference.to_document() == {
        "mode": "nearest",
        "tags": [{"dc": "ny", "rack": "1"}, {}],
        "maxStalenessSeconds": 90,
    }


def test_what_is_passed_beside_the_string_wins_over_it() -> None:
    assert options("mongodb://a/?maxPoolSize=5", maxPoolSize=7, retryWrites=False).max_pool_size == 7


def test_hosts_are_lowered_and_get_the_default_port() -> None:
    assert parse_uri("mongodb://A,b:3,[::1],[FE80::1]:5").hosts == (
        "a:27017",
        "b:3",
        "[::1]:27017",
        "[fe80::1]:5",
    )
    assert split_address("[::1]:27017") == ("::1", 27017)


def test_the_database_of_the_string_is_kept() -> None:
    assert options("mongodb://a/things?w=1").default_database == "things"


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("nonsense=1", "option nonsense is ignored: this driver knows no such option"),
        ("maxPoolSize=x", "option maxPoolSize is ignored: expected a whole number, not 'x'"),
        ("maxConnecting=0", "option maxConnecting is ignored: expected at least 1, not 0"),
        ("retryWrites=1", "option retryWrites is ignored: expected true or false, not '1'"),
        ("compressors=lzma", "option compressors is ignored: unknown compressor 'lzma'"),
        ("zlibCompressionLevel=10", "option zlibCompressionLevel is ignored: expected a number from -1 to 9"),
        ("readPreferenceTags=x", "option readPreferenceTags is ignored: expected tags such as dc:ny"),
        ("serverMonitoringMode=x", "option serverMonitoringMode is ignored: expected one of auto, stream"),
        ("appName=", "option appName is ignored: expected text, not ''"),
        ("w=1&w=1", "option w appears more than once; the first value is used"),
        (
            "authMechanismProperties=x",
            "option authMechanismProperties is ignored: expected properties such as",
        ),
        ("w=1&w=2", "option w appears more than once; the first value is used"),
        ("maxStalenessSeconds=-2", "option maxStalenessSeconds is ignored: expected at least -1"),
        ("wTimeoutMS=soon", "option wTimeoutMS is ignored: expected a whole number, not 'soon'"),
        ("wTimeoutMS=1.5", "option wTimeoutMS is ignored: expected a whole number, not '1.5'"),
        ("journal=1", "option journal is ignored: expected true or false, not '1'"),
        ("w=", "option w is ignored: expected text, not ''"),
        ("maxPoolSize=1_000", "option maxPoolSize is ignored: expected a whole number, not '1_000'"),
        ("maxPoolSize=%205", "option maxPoolSize is ignored: expected a whole number, not ' 5'"),
        ("maxPoolSize=%D9%A3", "option maxPoolSize is ignored: expected a whole number, not '٣'"),
        ("appName=a=b", "the value of option appName holds an unencoded '='"),
    ],
)
def test_an_option_that_cannot_be_used_is_left_out_with_a_warning(query: str, warning: str) -> None:
    _, warnings = ClientOptions.of_uri(f"mongodb://a/?{query}")
    assert len(warnings) == 1
    assert warnings[0].startswith(warning)


@pytest.mark.spec("CMAP-153")
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://a", "begins with mongodb:// or mongodb+srv://"),
        ("mongodb://", "a host is empty"),
        ("mongodb://a,,b", "a host is empty"),
        ("mongodb://a:0", "a number from 1 to 65535"),
        ("mongodb://a:x", "a number from 1 to 65535"),
        ("mongodb://::1", "IPv6 address is written in brackets"),
        ("mongodb://[::1", "not an IPv6 address in brackets"),
        ("mongodb://@a", "the user name is empty"),
        ("mongodb://u:p:q@a", "must be percent-encoded"),
        ("mongodb://u%:p@a", "must be percent-encoded as %25"),
        ("mongodb://a/x$y", "a database name holds none of"),
        ("mongodb://a/?w", "not of the form name=value"),
        ("mongodb://a,b/?directConnection=true", "directConnection=true cannot be used with several hosts"),
        ("mongodb://a,b/?loadBalanced=true", "loadBalanced=true cannot be used with several hosts"),
        ("mongodb://a/?loadBalanced=true&replicaSet=x", "cannot be used with replicaSet"),
        ("mongodb://a/?maxPoolSize=1&minPoolSize=2", "minPoolSize cannot be larger"),
        ("mongodb://a/?w=0&journal=true", "w=0 cannot be used with journal=true"),
        ("mongodb://a/?w=-2", "w cannot be negative: -2"),
        ("mongodb://a/?wtimeoutMS=-500", "wTimeoutMS cannot be negative: -500"),
        ("mongodb://a/?w=-1&w=1", "w cannot be negative: -1"),
        ("mongodb://a/?tls=true&ssl=false", "different values"),
        ("mongodb://a/?proxyPort=1", "need proxyHost"),
        ("mongodb+srv://a,b", "names one host"),
        ("mongodb+srv://a:1", "takes no port"),
        ("mongodb://u@a", "user 'u' has no password"),
        ("mongodb://a/?authMechanism=SCRAM-SHA-1", "SCRAM-SHA-1 needs a user name"),
        ("mongodb://a/?authSource=", "authSource is empty"),
        ("mongodb://u:p@a/?authMechanism=MONGODB-X509", "takes no password"),
        ("mongodb://u@a/?authMechanism=MONGODB-X509&authSource=b", "is $external, not b"),
        ("mongodb://u:p@a/?authMechanism=MONGODB-CR", "is no mechanism of authentication"),
    ],
)
def test_what_cannot_be_used_at_all_is_refused_with_the_reason(uri: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as info:
        ClientOptions.of_uri(uri)
    assert message in str(info.value)


@pytest.mark.parametrize(
    ("query", "w"), [("w=1", 1), ("w=0", 0), ("w=majority", "majority"), ("w=1.5", "1.5"), ("w=²", "²")]
)
def test_a_w_that_is_no_whole_number_is_the_name_of_a_mode(query: str, w: int | str) -> None:
    assert options(f"mongodb://a/?{query}").concerns.write_concern == WriteConcern(w=w)


@pytest.mark.spec("CMAP-153")
def test_a_pool_without_a_maximum_may_have_any_minimum() -> None:
    assert options("mongodb://a/?maxPoolSize=0&minPoolSize=500").min_pool_size == 500


@pytest.mark.parametrize("given", [{"w": -1}, {"wTimeoutMS": -1}])
def test_a_negative_concern_beside_the_string_is_refused_too(given: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be negative: -1"):
        ClientOptions.of_uri("mongodb://a/?w=1&wTimeoutMS=1", given)


@pytest.mark.parametrize("name", ["w", "wTimeoutMS"])
def test_of_the_option_itself_a_negative_number_is_warned_of(name: str) -> None:
    """URI Options, which knows no concerns yet: what makes one of it is refused."""
    _, given, warnings = read_options(f"mongodb://a/?{name}=-2", {})
    assert given == {}
    assert warnings == (f"option {name} is ignored: expected at least 0, not -2",)


@pytest.mark.parametrize(
    "concern", [{"w": -1}, {"w": 1.5}, {"w": True}, {"wtimeout_ms": -1}, {"wtimeout_ms": 0.5}]
)
def test_a_write_concern_has_whole_numbers_that_are_not_negative(concern: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        WriteConcern(**concern)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("mongodb+srv://a", "does not resolve mongodb+srv"),
        ("mongodb://a/?proxyHost=b", "does not use proxies"),
        ("mongodb://%2Ftmp%2Fa.sock", "does not use Unix sockets"),
        ("mongodb://u:p@a/?authMechanism=PLAIN", "authenticates by SCRAM-SHA-1, SCRAM-SHA-256, MONGODB-X509"),
    ],
)
def test_a_client_is_not_made_with_a_valid_option_that_this_driver_lacks(uri: str, message: str) -> None:
    ClientOptions.of_uri(uri)
    with pytest.raises(ConfigurationError) as info:
        AsyncClient(uri)
    assert message in str(info.value)


@pytest.mark.parametrize("given", [{"w": -1}, {"wtimeout": -1}, {"w": 0, "j": True}])
def test_a_write_concern_that_makes_no_sense_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError):
        WriteConcern.of_document(given)


AZURE = "mongodb://u@a/?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:azure"


def test_properties_of_a_mechanism_are_kept_with_colons_in_their_values() -> None:
    credential = options(f"{AZURE},TOKEN_RESOURCE:mongodb://b").credential
    assert credential is not None
    assert credential.properties == {"ENVIRONMENT": "azure", "TOKEN_RESOURCE": "mongodb://b"}
    assert credential.source == "$external"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (AZURE, "needs a TOKEN_RESOURCE"),
        (AZURE.replace("azure", "k8s"), "takes no user name"),
        (AZURE.replace("azure", "moon"), "is one of azure, gcp, test, k8s"),
        (f"{AZURE},TOKEN:b", "takes no authMechanismProperties named TOKEN"),
        ("mongodb://u@a/?authMechanism=MONGODB-AWS", "a user name and a password, or neither"),
        ("mongodb://a/?authMechanism=GSSAPI", "GSSAPI needs a user name"),
        (
            "mongodb://u@a/?authMechanism=GSSAPI&authMechanismProperties=CANONICALIZE_HOST_NAME:x",
            "CANONICALIZE_HOST_NAME is one of",
        ),
    ],
)
def test_a_mechanism_is_refused_what_it_does_not_take(uri: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as info:
        ClientOptions.of_uri(uri)
    assert message in str(info.value)


def test_an_unknown_override_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option 'maxPool'"):
        ClientOptions.of_uri("mongodb://a", {"maxPool": 1})


def test_the_table_of_options_is_in_the_order_of_the_alphabet() -> None:
    assert list(OPTIONS) == sorted(OPTIONS, key=str.lower)
