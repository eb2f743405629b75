"""Exemptions from the limiters: addresses by CIDR range, applications and drivers by the start of a name."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class AddressRanges:
    """A list of CIDR ranges, as `{ranges: [...]}` gives it. What is no range is the name of a Unix socket."""

    networks: tuple[_Network, ...] = ()
    names: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether anybody can be in them."""
        return bool(self.networks or self.names)

    @classmethod
    def of(cls, ranges: Sequence[str]) -> AddressRanges:
        """Read a list of ranges, addresses and names of sockets."""
        networks: list[_Network] = []
        names: set[str] = set()
        for each in ranges:
            try:
                networks.append(ip_network(each, strict=False))
            except ValueError:
                # As on a server: an entry that is no range is kept as the name of a socket, and no error.
                names.add(each)
        return cls(tuple(networks), frozenset(names))

    def __contains__(self, peer: str) -> bool:
        """Return whether a peer, `address:port`, is in one of the ranges."""
        if not self.networks:
            return peer in self.names
        try:
            address = ip_address(peer.rpartition(":")[0].split("%")[0])
        except ValueError:
            return peer in self.names
        # A listener for both families sees an IPv4 client as `::ffff:a.b.c.d`; IPv4 ranges match it.
        mapped = getattr(address, "ipv4_mapped", None) or address
        return any(mapped.version == network.version and mapped in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class ApplicationNames:
    """Beginnings of names of applications and drivers, as `{appNames: [...]}` gives them."""

    prefixes: tuple[str, ...] = ()

    def match(self, metadata: Mapping[str, Any] | None) -> bool:
        """Return whether the `client` document of a handshake names one of them. Case matters."""
        if metadata is None or not self.prefixes:
            return False
        names = [_name_in(metadata, part) for part in ("application", "driver")]
        return any(name.startswith(self.prefixes) for name in names if name is not None)


def _name_in(metadata: Mapping[str, Any], part: str) -> str | None:
    described = metadata.get(part)
    name = described.get("name") if isinstance(described, dict) else None
    return name if isinstance(name, str) else None
