"""Shell fragments for virtual machines: Docker, fabric plugins, bucket mounts, access token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuyard.provision.invariants.facts import MachineFabric, read_facts
from gpuyard.provision.launch.launch import BucketMount
from gpuyard.provision.shell_text import shell

FOLDER = "/opt/gpuyard"
DATA = Path(__file__).parent / "data"
# Host paths that a container needs to use a fabric.
FABRIC_PATHS = {
    "roce": ("/usr/local/gib",),
    "tcpxo": ("/var/lib/tcpxo", "/dev/aperture_devices"),
    "tcpx": ("/var/lib/tcpx", "/run/tcpx"),
}


def fragment(path: Path) -> str:
    """Return a shell fragment that is the same for every machine."""
    return path.read_text(encoding="utf-8").rstrip()


def docker_fragment() -> str:
    """Return the fragment that installs Docker with GPU support."""
    return fragment(DATA / "docker.sh")


def host_fragment() -> str:
    """Return the fragment that disables upgrades during the job."""
    return fragment(DATA / "host.sh")


def local_ssd_fragment() -> str:
    """Return the fragment that puts containers on the local SSDs, if the machine has any."""
    return fragment(DATA / "local_ssd.sh")


def fabric_fragment(fabric: MachineFabric) -> str:
    """Return the fragment that installs the newest known release of a fabric's NCCL plugin."""
    text = fragment(DATA / f"{fabric.technology}.sh")
    for row in read_facts().releases:
        if row.technology == fabric.technology:
            return f"PLUGIN_VERSION={row.plugin} DAEMON_VERSION={row.daemon}\n{text}"
    return text


def mount_lines(mounts: tuple[BucketMount, ...]) -> Iterator[str]:
    """Yield the lines that mount buckets as folders."""
    if not mounts:
        return
    yield fragment(DATA / "gcsfuse.sh")
    for mount in mounts:
        options = ["--implicit-dirs", "-o allow_other", "--file-mode=666", "--dir-mode=777"]
        options += [shell("--only-dir={mount.folder}", mount=mount)] if mount.folder else []
        options += ["-o ro"] if mount.is_read_only else []
        gcsfuse = shell("{mount.bucket} {mount.path}", mount=mount)
        yield shell("mkdir -p {mount.path}", mount=mount)
        check = shell("mountpoint -q {mount.path}", mount=mount)
        yield f"{check} || gcsfuse {' '.join(options)} {gcsfuse}"


def token_line(secret: str) -> str:
    """Return the line that reads the token of gated models from Secret Manager, if it is there.

    The token is never written to disk.
    """
    read = shell("gcloud secrets versions access latest --secret={secret}", secret=secret)
    return f"HF_TOKEN=$({read} 2>/dev/null || true); export HF_TOKEN"
