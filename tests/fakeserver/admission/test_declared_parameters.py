"""The parameters of admission control have the types and defaults of the server's document."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from fakeserver.errors import CommandError
from fakeserver.profile import Profile
from fakeserver.settings.declaration import INT32_MAX
from fakeserver.settings.server_parameters import ServerParameters

_ESTABLISHMENT = "ingressConnectionEstablishment"
_REQUESTS = "ingressRequestAdmission"


def _values(profile: str, **startup: Any) -> ServerParameters:
    return ServerParameters(Profile.named(profile), startup)


@pytest.mark.spec("SAC-40", "SAC-53", "SAC-63")
@pytest.mark.parametrize("profile", ["8.2", "9.0"])
@pytest.mark.parametrize(
    ("name", "kind", "default", "other"),
    [
        (f"{_ESTABLISHMENT}RateLimiterEnabled", "bool", False, True),
        (f"{_ESTABLISHMENT}RatePerSec", "int", INT32_MAX, 7),
        (f"{_ESTABLISHMENT}BurstCapacitySecs", "double", sys.float_info.max, 0.5),
        (f"{_ESTABLISHMENT}MaxQueueDepth", "int", 0, 7),
        (f"{_ESTABLISHMENT}RateLimiterBypass", "document", {"ranges": []}, {"ranges": ["10.0.0.0/8"]}),
        ("ingressRequestRateLimiterEnabled", "bool", False, True),
        (f"{_REQUESTS}RatePerSec", "int", INT32_MAX, 7),
        (f"{_REQUESTS}BurstCapacitySecs", "double", sys.float_info.max, 0.5),
        ("ingressRequestRateLimiterExemptions", "document", {"ranges": []}, {"ranges": ["::1/128"]}),
        ("ingressAdmissionControllerTicketPoolSize", "int", 1_000_000, 7),
    ],
)
def test_a_parameter_has_the_type_and_the_default_of_the_document(
    profile: str, name: str, kind: str, default: object, other: Any
) -> None:
    own = _values(profile)
    declared = own.get(name)
    assert declared is not None
    assert (declared.kind, own[name]) == (kind, default)
    assert type(own[name]) is type(default)
    own.set({name: other})
    assert own[name] == other == _values(profile, **{name: other})[name]
    with pytest.raises(CommandError):
        _values(profile, **{name: "of another type"})
