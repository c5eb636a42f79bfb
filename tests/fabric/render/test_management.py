"""Management configuration and ZTP: complete devices without a password that anybody knows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric.configs.audit import audit
from gpuyard.fabric.configs.read import ConfigText, read_configs
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.fabric_files import render
from gpuyard.fabric.render.management import RENDERERS
from gpuyard.fabric.render.releases import RELEASES, is_older
from gpuyard.fabric.render.site import PASSWORD_PLACEHOLDER, ManagementPort, Site, check_site
from gpuyard.fabric.render.switch_os import File
from gpuyard.fabric.render.switch_os_list import os_names

SITE = Site(
    management_prefix="192.0.2.0/24",
    gateway="192.0.2.1",
    ntp_servers=("192.0.2.2",),
    syslog_servers=("192.0.2.3",),
    dns_servers=("192.0.2.4",),
    ssh_keys=("ssh-ed25519 AAAAExample admin",),
    ztp_url="http://192.0.2.5",
    macs=(ManagementPort(switch="spine-1", mac="02:00:00:00:00:01"),),
)


def switch_files(fabric: Fabric, site: Site = SITE) -> Iterator[File]:
    for file in render(fabric, load_catalog(), site):
        if file.path.startswith(("switches/", "ztp/")):
            yield file


@pytest.mark.parametrize("system", RENDERERS)
def test_every_switch_gets_its_management(system: str, make: Callable[..., Fabric]) -> None:
    fabric = make(system)
    files = {file.path: file.text for file in switch_files(fabric)}
    name, _ = RENDERERS[system]
    for switch, address in SITE.addresses(fabric).items():
        text = files[f"switches/{switch}/{name}"]
        for value in (address, "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "9339"):
            assert value in text


@pytest.mark.parametrize("system", [name for name in RENDERERS if name != "sonic"])
def test_passwords_are_placeholders_and_keys_are_the_users(
    system: str, make: Callable[..., Fabric]
) -> None:
    name, _ = RENDERERS[system]
    for file in switch_files(make(system)):
        if file.path.endswith(name):
            assert PASSWORD_PLACEHOLDER in file.text
            assert "AAAAExample" in file.text


@pytest.mark.parametrize("system", RENDERERS)
def test_management_is_read_with_the_fabric_and_is_no_drift(
    system: str, make: Callable[..., Fabric]
) -> None:
    fabric = make(system)
    texts = [
        ConfigText(file=file.path, text=file.text)
        for file in switch_files(fabric)
        if file.path.startswith("switches/")
    ]
    devices = read_configs(texts)
    assert [device.hostname for device in devices] == [one.name for one in fabric.switches]
    assert audit(devices, fabric).findings == ()


@pytest.mark.parametrize("system", RENDERERS)
def test_ztp_names_the_files_of_each_switch(system: str, make: Callable[..., Fabric]) -> None:
    fabric = make(system)
    files = {file.path: file.text for file in switch_files(fabric)}
    subnet = json.loads(files["ztp/kea-dhcp4.json"])["Dhcp4"]["subnet4"][0]
    assert [one["hostname"] for one in subnet["reservations"]] == list(SITE.addresses(fabric))
    macs = {one["hostname"]: one["hw-address"] for one in subnet["reservations"]}
    assert macs["spine-1"] == "02:00:00:00:00:01"
    assert macs["spine-2"] == "REPLACE-WITH-MAC-OF-spine-2"
    for one in subnet["reservations"]:
        boot = one["option-data"][0]["data"].removeprefix("http://192.0.2.5/")
        for path in files[boot].split('"'):
            if path.startswith("http://192.0.2.5/switches/"):
                assert path.removeprefix("http://192.0.2.5/") in files


def test_poap_script_carries_its_own_checksum(make: Callable[..., Fabric]) -> None:
    files = {file.path: file.text for file in switch_files(make("nxos"))}
    text = files["ztp/spine-1/poap.py"]
    compile(text, "poap.py", "exec")
    stated = text.splitlines()[1].removeprefix('#md5sum="').removesuffix('"')
    rest = "".join(line for line in text.splitlines(True) if not line.startswith("#md5sum"))
    assert hashlib.md5(rest.encode(), usedforsecurity=False).hexdigest() == stated


def test_a_network_that_is_too_small_is_wrong_input(make: Callable[..., Fabric]) -> None:
    with pytest.raises(InputError, match="has no host 15, and there are 4 switches"):
        check_site(replace(SITE, management_prefix="192.0.2.0/28", first_host=12), make("frr"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gateway", "hello"),
        ("gateway", "198.51.100.1"),
        ("gateway", "192.0.2.12"),  # of the second switch
        ("admin", "two words"),
        ("ssh_keys", ("",)),
        ("ssh_keys", ("ssh-ed25519",)),
        ("ssh_keys", ('ssh-ed25519 AAAA "\ncommit',)),
        ("ntp_servers", ("192.0.2.2; reload",)),
        ("gnmi_port", 99999),
        ("gnmi_certificate", "../key"),
        ("ztp_url", "http://192.0.2.5/$(reboot)"),
        ("macs", (ManagementPort(switch="spine-1", mac="no"),)),
    ],
)
def test_a_value_that_does_not_fit_a_configuration_is_wrong_input(
    make: Callable[..., Fabric], key: str, value: object
) -> None:
    with pytest.raises(InputError, match=key):
        check_site(replace(SITE, **{key: value}), make("frr"))


def test_junos_names_the_type_of_an_ecdsa_key(make: Callable[..., Fabric]) -> None:
    site = replace(SITE, ssh_keys=("ecdsa-sha2-nistp256 AAAA admin",))
    check_site(site, make("junos"))
    text = next(
        file.text for file in switch_files(make("junos"), site) if "management" in file.path
    )
    assert 'authentication ssh-ecdsa "ecdsa-sha2-nistp256 AAAA admin"' in text


def test_an_unknown_switch_is_wrong_input(make: Callable[..., Fabric]) -> None:
    macs = (ManagementPort(switch="leaf-9", mac="02:00:00:00:00:02"),)
    with pytest.raises(InputError, match="leaf-9 is not a switch"):
        check_site(replace(SITE, macs=macs), make("frr"))


def test_every_os_has_a_release_with_its_source() -> None:
    assert {one.os for one in RELEASES} == set(os_names())
    assert all("http" in one.source for one in RELEASES)


def test_releases_compare_by_number() -> None:
    assert is_older("5.9.1", "5.15")
    assert not is_older("5.15.0", "5.15")


def test_a_release_before_the_files_syntax_is_a_warning() -> None:
    text = "- header:\n    version: '5.13'\n- set:\n    system:\n      hostname: leaf-1\n"
    (finding,) = audit(read_configs([ConfigText(file="leaf-1.yaml", text=text)])).findings
    assert finding.rule == "config-release"
    assert "need 5.15" in finding.what
