"""Host names, origins, tokens, API keys and certificates: which servers start, which requests pass."""

from __future__ import annotations

import hashlib
import logging
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.errors import InputError
from gpuyard.serving.access import (
    HostCheck,
    bearer,
    check_exposure,
    check_tls,
    exposure_warnings,
    is_same_secret,
    management_token,
)
from gpuyard.serving.api_keys import ApiKeys, add_key, read_keys
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.request_guard import RequestGuard
from gpuyard.serving.spec import AccessSpec

TOKEN = "t" * 43


@pytest.mark.parametrize(
    ("bound", "header", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:8080", True),
        ("127.0.0.1", "127.3.2.1", True),
        ("127.0.0.1", "LOCALHOST:1", True),
        ("127.0.0.1", "localhost.:80", True),
        ("127.0.0.1", "[::1]:8080", True),
        ("127.0.0.1", "[0:0:0:0:0:0:0:1]", True),
        ("127.0.0.1", "10.0.0.1", False),
        ("127.0.0.1", "0.0.0.0:8080", False),
        ("127.0.0.1", "127.0.0.1.example.org", False),
        ("127.0.0.1", "localhost.example.org", False),
        ("127.0.0.1", "localhost@example.org", False),
        ("127.0.0.1", "localhost/example.org", False),
        ("127.0.0.1", "localhost:99999", False),
        ("127.0.0.1", "localhost:x", False),
        ("127.0.0.1", "[", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", None, False),
        ("127.0.0.1", "a" * 400, False),
        ("localhost", "127.0.0.1", True),
        ("10.1.2.3", "10.1.2.3:80", True),
        ("10.1.2.3", "10.1.2.4:80", False),
        ("10.1.2.3", "127.0.0.1", False),
        ("10.1.2.3", "evil.example", False),
        ("0.0.0.0", "10.9.9.9:80", True),
        ("0.0.0.0", "localhost", True),
        ("0.0.0.0", "[::1]", True),
        ("0.0.0.0", "evil.example", False),
        ("::", "[fe80::1]:80", True),
        ("0.0.0.0", "Models.Example:80", True),
        ("127.0.0.1", "models.example", True),
        ("127.0.0.1", "other.models.example", False),
    ],
)
def test_host_header_must_name_the_server(bound: str, header: str | None, allowed: bool) -> None:
    check = HostCheck(bound, ("models.EXAMPLE",))
    for _ in range(2):  # the second answer comes from the cache
        assert check.allows_host(header) is allowed


def test_server_on_the_network_answers_to_the_name_of_its_machine() -> None:
    assert HostCheck("0.0.0.0").allows_host(f"{socket.gethostname()}:8080")
    assert HostCheck("127.0.0.1").allows_host(socket.gethostname()) is (
        socket.gethostname() == "localhost"
    )


def test_host_cache_is_bounded() -> None:
    check = HostCheck("127.0.0.1")
    for number in range(5000):
        assert not check.allows_host(f"host-{number}.example")
    assert len(check._hosts) <= 1000


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://localhost:80", True),
        ("https://localhost:80", True),
        ("null", False),
        ("", False),
        ("http://localhost", False),
        ("http://localhost:800", False),
        ("http://evil.example", False),
    ],
)
def test_origin_must_be_of_the_server_itself(origin: str | None, allowed: bool) -> None:
    assert HostCheck("127.0.0.1").allows_origin(origin, "localhost:80") is allowed


def test_token_is_created_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    token = management_token(tmp_path / "home")
    path = tmp_path / "home" / "management.token"
    assert len(token) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert management_token(tmp_path / "home") == token
    assert [item.name for item in (tmp_path / "home").iterdir()] == ["management.token"]
    path.chmod(0o640)
    with pytest.raises(InputError, match="other users"):
        management_token(tmp_path / "home")
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(InputError, match="not a token"):
        management_token(tmp_path / "home")


def test_secrets_are_compared_and_read_from_headers() -> None:
    assert is_same_secret("é\ud800", "é\ud800")
    assert not is_same_secret("", TOKEN)
    assert bearer("Bearer  abc ") == bearer("bearer abc") == "abc"
    assert bearer(None) == bearer("Basic abc") == bearer("abc") == ""


@pytest.mark.parametrize(
    ("host", "access", "starts"),
    [
        ("127.0.0.1", AccessSpec(), True),
        ("::1", AccessSpec(), True),
        ("localhost", AccessSpec(), True),
        ("0.0.0.0", AccessSpec(), False),
        ("10.0.0.1", AccessSpec(), False),
        ("models.example", AccessSpec(), False),
        ("0.0.0.0", AccessSpec(tls_cert="c", tls_key="k"), False),  # knows no client
        ("0.0.0.0", AccessSpec(api_keys="keys"), True),
        ("0.0.0.0", AccessSpec(insecure=True), True),
    ],
)
def test_server_on_the_network_needs_keys(host: str, access: AccessSpec, starts: bool) -> None:
    if starts:
        check_exposure(host, access)
        return
    with pytest.raises(InputError) as caught:
        check_exposure(host, access)
    for option in ("--api-keys", "--insecure", "127.0.0.1", "--tls-cert"):
        assert option in caught.value.problems[0].fix


def test_warnings_name_what_is_not_protected() -> None:
    assert exposure_warnings("127.0.0.1", AccessSpec(insecure=True)) == ()
    assert len(exposure_warnings("0.0.0.0", AccessSpec(insecure=True))) == 2
    assert len(exposure_warnings("0.0.0.0", AccessSpec(api_keys="k"))) == 1
    assert exposure_warnings("0.0.0.0", AccessSpec(api_keys="k", tls_cert="c")) == ()


def test_certificate_and_key_must_exist_and_match(
    tmp_path: Path, certificate: Callable[[Path], tuple[str, str]]
) -> None:
    cert, key = certificate(tmp_path / "one")
    other = certificate(tmp_path / "two")[1]
    (tmp_path / "text").write_text("nothing")
    check_tls(AccessSpec())
    check_tls(AccessSpec(tls_cert=cert, tls_key=key))
    for wrong in (
        AccessSpec(tls_cert=cert),
        AccessSpec(tls_key=key),
        AccessSpec(tls_cert=cert, tls_key=other),
        AccessSpec(tls_cert=cert, tls_key=str(tmp_path / "text")),
        AccessSpec(tls_cert=str(tmp_path / "none"), tls_key=key),
    ):
        with pytest.raises(InputError):
            check_tls(wrong)


def test_keys_are_saved_as_hashes(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    one, two = add_key(path, "one"), add_key(path, "two")
    text = path.read_text()
    assert one not in text
    assert two not in text
    assert hashlib.sha256(one.encode()).hexdigest() in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = ApiKeys(path)
    assert (keys.name_of(one), keys.name_of(two)) == ("one", "two")
    for wrong in ("", one[:-1], one + "x", hashlib.sha256(one.encode()).hexdigest(), "\ud800"):
        assert keys.name_of(wrong) == ""
    with pytest.raises(InputError, match="use another name"):
        add_key(path, "one")
    with pytest.raises(InputError, match="not a valid name"):
        add_key(path, "a b")
    assert path.read_text() == text


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "gpuyard-plain\n", f"a {'0' * 63}\n", f"a {'0' * 64}\n" * 2]
)
def test_wrong_key_files_are_refused_without_their_contents(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_keys(path)
    assert "gpuyard-plain" not in str(caught.value)


def test_keys_follow_their_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys"
    one = add_key(path, "one")
    keys = ApiKeys(path)
    two = add_key(path, "two")
    assert keys.name_of(two) == ""
    keys.refresh()
    assert keys.name_of(two) == "two"
    with caplog.at_level(logging.ERROR):
        path.write_text("garbage\n")
        keys.refresh()
        path.unlink()
        keys.refresh()
    assert keys.name_of(one) == "one"  # a wrong or missing file changes nothing
    assert len(caplog.records) == 2
    three = add_key(path, "three")
    keys.refresh()
    assert (keys.name_of(one), keys.name_of(three)) == ("", "three")  # one is revoked


def guard(tmp_path: Path, *, with_keys: bool) -> tuple[RequestGuard, str]:
    key = add_key(tmp_path / "keys", "one")
    keys = ApiKeys(tmp_path / "keys") if with_keys else None
    return RequestGuard(HostCheck("127.0.0.1"), TOKEN, keys), key


def status(check: RequestGuard, headers: dict[str, str], *, management: bool = False) -> int:
    try:
        (check.admit_management if management else check.admit)(headers)
    except RequestError as error:
        return error.status
    return 200


def test_without_keys_the_host_and_the_page_decide(tmp_path: Path) -> None:
    check, _ = guard(tmp_path, with_keys=False)
    assert status(check, {"host": "localhost"}) == 200
    assert status(check, {"host": "localhost", "origin": "http://localhost"}) == 200
    assert status(check, {"host": "evil.example"}) == 403
    assert status(check, {"host": "localhost", "origin": "http://evil.example"}) == 403
    assert status(check, {}) == 403


def test_with_keys_the_key_decides(tmp_path: Path) -> None:
    check, key = guard(tmp_path, with_keys=True)
    assert status(check, {"host": "localhost"}) == 401
    assert status(check, {"host": "evil.example", "x-api-key": key}) == 200
    assert status(check, {"host": "localhost", "authorization": f"Bearer {key}"}) == 200
    assert status(check, {"host": "localhost", "authorization": f"Bearer {TOKEN}"}) == 200
    assert status(check, {"host": "localhost", "authorization": f"Basic {key}"}) == 401
    assert status(check, {"host": "localhost", "x-api-key": key[:-1]}) == 401


@pytest.mark.parametrize("with_keys", [False, True])
def test_management_needs_host_page_token_and_json(tmp_path: Path, with_keys: bool) -> None:
    check, key = guard(tmp_path, with_keys=with_keys)
    right = {
        "host": "localhost",
        "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json; charset=utf-8",
    }
    assert status(check, right, management=True) == 200
    for change, expected in (
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Bearer {key}"}, 401),  # an API key does not manage
        ({"authorization": ""}, 401),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": ""}, 415),
    ):
        assert status(check, right | change, management=True) == expected, change
