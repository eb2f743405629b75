"""The requests that the HTTP door refuses."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from fakeserver.control.web.guard import MOST_BYTES

if TYPE_CHECKING:
    from asking import HttpDoor

PATHS = ("/control", "/state", "/journal", "/journal/stream", "/metrics", "/openapi.json", "/v1/servers")


def cookie_of(door: HttpDoor) -> str:
    given = door.post("/session").headers["set-cookie"]
    assert "HttpOnly" in given
    assert "SameSite=strict" in given
    return given.partition(";")[0]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic dG9rZW4="])
def test_without_the_token_everything_but_the_page_is_refused(
    door: HttpDoor, path: str, authorization: str
) -> None:
    answer = door.get(path, authorization=authorization)
    assert answer.status == 401
    assert "Bearer" in answer.document["error"]


def test_no_verb_is_performed_without_the_token(door: HttpDoor) -> None:
    assert door.post("/control/kill", authorization="Bearer").status == 401
    assert {each["process"] for each in door.get("/state").document["servers"]} == {"running"}


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1", "localhost:1", "127.0.0.1.example.com:80"])
def test_a_name_that_was_rebound_to_this_machine_is_refused(door: HttpDoor, host: str) -> None:
    assert door.get("/state", host=host).status == 403
    assert door.get("/", host=host).status == 403


@pytest.mark.parametrize("origin", ["http://example.com", "null", "https://localhost", "http://localhost:1"])
def test_another_origin_is_refused(door: HttpDoor, origin: str) -> None:
    assert door.post("/control/failPointsOff", origin=origin).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_another_site_began_is_refused(door: HttpDoor, site: str) -> None:
    assert door.get("/state", sec_fetch_site=site).status == 403
    assert door.get("/", sec_fetch_site=site).status == 200


def test_its_own_page_is_welcome(door: HttpDoor) -> None:
    own = {"origin": f"http://{door.address}", "sec_fetch_site": "same-origin"}
    assert door.post("/control/failPointsOff", **own).status == 200


def test_the_cookie_that_the_page_gets_is_as_good_as_the_token(door: HttpDoor) -> None:
    cookie = cookie_of(door)
    assert door.get("/state", authorization="", cookie=cookie).status == 200
    assert door.get("/state", authorization="", cookie=cookie[:-1]).status == 401
    assert door.get("/state", authorization="", cookie='"').status == 401


def test_the_token_in_the_pages_address_is_exchanged_for_the_cookie(door: HttpDoor) -> None:
    answer = door.get(f"/?token={door.token}", authorization="")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"].partition(";")[0] == cookie_of(door)
    refused = door.get("/?token=wrong", authorization="")
    assert refused.status == 401
    assert "set-cookie" not in refused.headers


def test_a_body_over_the_limit_is_refused(door: HttpDoor) -> None:
    assert door.post("/control/kill", b" " * MOST_BYTES).status != 413
    assert door.post("/control/kill", b" " * (MOST_BYTES + 1)).status == 413


def test_a_body_of_unknown_length_is_cut_at_the_limit(door: HttpDoor) -> None:
    host, _, port = door.address.rpartition(":")
    head = f"POST /control/kill HTTP/1.1\r\nHost: {door.address}\r\nAuthorization: Bearer {door.token}\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as sent:
        sent.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 17)
        assert sent.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("path", ["/", "/state", "/nowhere"])
def test_every_answer_forbids_scripts_from_elsewhere_and_inline(door: HttpDoor, path: str) -> None:
    policy = door.get(path).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert door.get(path).headers["x-content-type-options"] == "nosniff"


def test_an_unfinished_request_keeps_nobody_waiting(door: HttpDoor) -> None:
    host, _, port = door.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as idle:
        idle.sendall(b"POST /control/kill HTTP/1.1\r\n")
        assert door.get("/state").status == 200
