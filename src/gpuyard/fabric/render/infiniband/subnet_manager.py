"""OpenSM configuration of an InfiniBand fabric: routing engine, roots and compute nodes.

Options as in opensm(8). GUIDs are not known before delivery, so a script lists them by the node
descriptions of the cabled fabric, which are the names of the design.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.switch_os import File

FOLDER = "subnet-manager"
FIRST_PRIORITY = 15  # the highest: the master; the standby has one less


def subnet_manager_files(fabric: Fabric) -> Iterator[File]:
    """Yield the files of the two hosts that run the subnet manager."""
    yield File(path=f"{FOLDER}/opensm.conf", text=_opensm(fabric))
    yield File(path=f"{FOLDER}/partitions.conf", text="Default=0x7fff, ipoib : ALL=full;\n")
    yield File(path=f"{FOLDER}/guids.sh", text=_guids(fabric))


def _opensm(fabric: Fabric) -> str:
    size = fabric.size
    adaptive = fabric.lossless.balancing.mode == "adaptive"
    tree = "ftree,updn" if size.tiers > 1 else "minhop"
    roots = ("root_guid_file /etc/opensm/root_guids.conf",) if size.tiers > 1 else ()
    lines = [
        f"# Subnet manager of {size.leaves} leaves, {size.spines} spines and {size.cores} cores.",
        "# Run it on two hosts; on the standby, set sm_priority 14.",
        "# GUIDs: sh guids.sh, on one of these hosts, after cabling.",
        f"routing_engine {tree}",
        *roots,
        "cn_guid_file /etc/opensm/cn_guids.conf",
        "partition_config_file /etc/opensm/partitions.conf",
        f"sm_priority {FIRST_PRIORITY}",
        "lmc 0",
    ]
    if adaptive:
        lines.append(
            "# Adaptive routing and SHARP are features of UFM and of NVIDIA's OpenSM:"
            " `ib sm sharp enable` on a UFM appliance, before OpenSM starts."
        )
    return "\n".join(lines) + "\n"


def _guids(fabric: Fabric) -> str:
    top = fabric.of_role("core") or fabric.of_role("spine") or fabric.of_role("leaf")
    roots = " ".join(device.name for device in top)
    return f"""\
#!/bin/sh
# Writes the GUIDs of the top switches and of the NICs, by node description, for opensm.conf.
set -e
folder=${{1:-/etc/opensm}}
ibswitches | awk -F'"' '/0x/ {{
  match($1, /0x[0-9a-f]+/); guid = substr($1, RSTART, RLENGTH)
  name = $2; sub(/^MF0;/, "", name); sub(/:.*/, "", name); print name, guid
}}' > "$folder/switches.txt"
: > "$folder/root_guids.conf"
for name in {roots}; do
  root=$(awk -v name="$name" '$1 == name {{print $2}}' "$folder/switches.txt")
  [ -n "$root" ] || {{ echo "no switch is named $name" >&2; exit 1; }}
  echo "$root" >> "$folder/root_guids.conf"
done
ibhosts | awk '/0x/ {{ match($0, /0x[0-9a-f]+/); print substr($0, RSTART, RLENGTH) }}' \\
  > "$folder/cn_guids.conf"
"""
