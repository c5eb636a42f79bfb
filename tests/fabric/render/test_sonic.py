"""config_db.json against the structure of SONiC's own models: tables, keys, fields, ranges and references."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.switch_os_list import switch_os

MODEL = json.loads((Path(__file__).parent / "sonic_tables.json").read_text(encoding="utf-8"))[
    "tables"
]
# Adaptive routing has a design (SONiC, Local ARS, revision 1.4) and no model yet.
WITHOUT_MODEL = {
    "ARS_PROFILE": {
        "algorithm",
        "ars_nhg_path_selector_mode",
        "default_ars_object",
        "ipv4_enable",
        "ipv6_enable",
    },
    "ARS_OBJECT": {"assign_mode", "flowlet_idle_time"},
    "ARS_INTERFACES": {"ars_obj_name"},
}
CASES = ("ipv4", "unnumbered", "tenants", "tenants-unnumbered", "frontend")
Tables = dict[str, dict[str, dict[str, str]]]


def fits(spec: object, value: str, tables: Tables) -> bool:
    """Whether a value is what the model asks for."""
    if not isinstance(spec, dict):
        return True
    if "enum" in spec:
        return value in spec["enum"]
    if "pattern" in spec:
        return re.fullmatch(spec["pattern"], value) is not None
    if "range" in spec:
        low, high = spec["range"].split("..")
        return re.fullmatch("-?[0-9]+", value) is not None and int(low) <= int(value) <= int(high)
    if "ref" in spec:
        return any(value == key.split("|")[0] for key in tables.get(spec["ref"], {}))
    return True


def problems(tables: Tables) -> Iterator[str]:
    """Everything in a database that the model does not know or allow."""
    for table, rows in tables.items():
        if table in WITHOUT_MODEL:
            yield from (
                f"{table}|{key}: {sorted(set(row) - WITHOUT_MODEL[table])}"
                for key, row in rows.items()
                if not set(row) <= WITHOUT_MODEL[table]
            )
            continue
        if table not in MODEL:
            yield f"no table {table}"
            continue
        for key, row in rows.items():
            shapes = [shape for shape in MODEL[table] if len(shape["key"]) == len(key.split("|"))]
            found = [list(row_problems(table, key, row, shape, tables)) for shape in shapes]
            yield from min(found, key=len, default=[f"{table}|{key}: no list with that many keys"])


def row_problems(
    table: str, key: str, row: dict[str, str], shape: dict[str, object], tables: Tables
) -> Iterator[str]:
    """What is wrong with one row against one shape."""
    keys, fields, mandatory = shape["key"], shape["fields"], shape["mandatory"]
    assert isinstance(keys, list)
    assert isinstance(fields, dict)
    assert isinstance(mandatory, list)
    for spec, part in zip(keys, key.split("|"), strict=True):
        if not fits(spec, part, tables):
            yield f"{table}|{key}: key {part} is not {spec}"
    pairs = fields.get("*", {}).get("map") if isinstance(fields.get("*"), dict) else None
    for field, value in row.items():
        if pairs:
            if not (fits(pairs[0], field, tables) and fits(pairs[1], value, tables)):
                yield f"{table}|{key}: {field}={value} is not {pairs}"
        elif field not in fields:
            yield f"{table}|{key}: no field {field}"
        elif not fits(fields[field], value, tables):
            yield f"{table}|{key}: {field}={value} is not {fields[field]}"
    for field in mandatory:
        if field not in row:
            yield f"{table}|{key}: {field} is missing"


def databases(fabric: Fabric) -> dict[str, Tables]:
    files = switch_os("sonic").render(fabric)
    return {
        file.path.split("/")[1]: json.loads(file.text)
        for file in files
        if file.path.endswith(".json")
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("switch", ["sn5600", "z9864f"])
def test_every_row_matches_the_yang_model(
    switch: str,
    case: str,
    make: Callable[..., Fabric],
    variants: Callable[[str], dict[str, Fabric]],
) -> None:
    fabric = (
        variants("sonic")[case] if switch == "sn5600" else make("sonic", leaf=switch, spine=switch)
    )
    for name, tables in databases(fabric).items():
        assert list(problems(tables)) == [], name


def test_wrong_row_is_rejected(make: Callable[..., Fabric]) -> None:
    tables = databases(make("sonic"))["leaf-s1-r1"]
    tables["PFC_WD"]["Ethernet0"]["detection_time"] = "50"
    tables["BUFFER_PG"]["Ethernet0|3"]["profil"] = "x"
    tables["QUEUE"]["Ethernet0|3"]["scheduler"] = "none"
    tables["BUFFER_PROFILE"]["egress_lossy_profile"].pop("pool")
    tables["INTERFACE"]["Ethernet9999"] = {}
    said = "\n".join(problems(tables))
    for part in (
        "detection_time=50",
        "no field profil",
        "scheduler=none",
        "pool is missing",
        "Ethernet9999",
    ):
        assert part in said


def test_lossless_class_is_consistent_across_tables(make: Callable[..., Fabric]) -> None:
    fabric = make("sonic")
    tables = databases(fabric)["leaf-s1-r1"]
    nic = fabric.lossless.nic
    tc = tables["DSCP_TO_TC_MAP"]["AZURE"][str(nic.roce_dscp)]
    assert tables["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] == str(nic.roce_priority) == tc == "3"
    queue = tables["TC_TO_QUEUE_MAP"]["AZURE"][tc]
    assert tables["MAP_PFC_PRIORITY_TO_QUEUE"]["AZURE"][str(nic.roce_priority)] == queue
    assert tables["QUEUE"][f"Ethernet0|{queue}"]["wred_profile"] == "ROCE"
    group = tables["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"][tc]
    profile = tables["BUFFER_PROFILE"][tables["BUFFER_PG"][f"Ethernet0|{group}"]["profile"]]
    assert (profile["xoff"], profile["size"], profile["xon"]) == (
        "231424",
        "250880",
        "19456",
    )  # 400 Gb/s, 5 m
    cnp = tables["DSCP_TO_TC_MAP"]["AZURE"][str(nic.cnp_dscp)]
    scheduler = tables["QUEUE"][f"Ethernet0|{tables['TC_TO_QUEUE_MAP']['AZURE'][cnp]}"]["scheduler"]
    assert tables["SCHEDULER"][scheduler] == {"type": "STRICT"}


def test_shared_headroom_pool_is_rendered(make: Callable[..., Fabric]) -> None:
    tables = databases(make("sonic", leaf="z9864f", spine="z9864f"))["leaf-s1-r1"]
    pool = tables["BUFFER_POOL"]["ingress_lossless_pool"]
    assert (pool["xoff"], int(pool["size"]) + int(pool["xoff"])) == ("33374584", 165_867_080)
    assert tables["BUFFER_PROFILE"]["pg_lossless_400000_40m_profile"]["xoff"] == "446024"


def test_frontend_has_no_pfc(variants: Callable[[str], dict[str, Fabric]]) -> None:
    for tables in databases(variants("sonic")["frontend"]).values():
        assert not set(tables) & {"PFC_WD", "PORT_QOS_MAP", "BUFFER_PG", "WRED_PROFILE"}
