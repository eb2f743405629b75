"""The units of arguments, for people who fill in a form."""

from __future__ import annotations

from typing import Final

from mongowire.documents.arguments import Kind

UNITS: Final = {
    Kind.DURATION: "seconds, or a text: 200ms, 5s, 1m30s",
    Kind.SHARE: "0 to 1, or a percentage: 2%",
    Kind.SIZE: "bytes, or a text: 16KB",
    Kind.SERVER: "name, address, primary, secondary or mongos",
    Kind.SERVERS: "names, parted by commas, or all",
    Kind.GROUPS: "groups parted by spaces, their members by commas: node0,clients node1,node2",
    Kind.CODES: "numbers or names, parted by commas",
    Kind.MODE: "alwaysOn, off, a number of times, or a JSON object",
    Kind.NAMES: "texts, parted by commas",
    Kind.DOCUMENT: "a JSON object",
    Kind.DOCUMENTS: "a JSON array of objects",
}
"""What a value of a kind is written in."""
