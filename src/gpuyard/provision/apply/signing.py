"""Signatures of rendered folders and journals, with a key that only this user can read.

The key is created once, in the user's state directory. Whoever can write to a rendered folder but
cannot read the key can neither change the files nor write a journal that apply would follow.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import private_directory, user_state_directory
from gpuyard.provision.artefact import Artefact

KEY_FILE = "deployment.key"
KEY_BYTES = 32
SIGNATURE = "deployment.sig"
RENDER_HERE = (
    "render it again on this machine; find resources that it already created with `gpuyard sweep`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A secret of this user on this machine."""

    secret: bytes = field(repr=False)
    folder: Annotated[Path, Doc("the state directory that holds it")]

    def mac(self, purpose: str, *parts: str) -> str:
        """Return the HMAC-SHA256 of texts; a MAC of one purpose is never valid for another."""
        # Lengths before the texts: no two lists of texts give the same message.
        message = b"".join(
            len(data).to_bytes(8, "big") + data
            for data in (part.encode() for part in (purpose, *parts))
        )
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()

    def matches(self, mac: str, purpose: str, *parts: str) -> bool:
        """Return whether a MAC is that of the texts, in constant time."""
        return hmac.compare_digest(mac.encode(), self.mac(purpose, *parts).encode())


def signature(deployment: str, key: SigningKey) -> Artefact:
    """Return the signature file of a deployment.json, which has the digests of all files."""
    return Artefact(name=SIGNATURE, text=key.mac("deployment", deployment) + "\n")


def check_signature(deployment: str, text: str | None, key: SigningKey, folder: str) -> None:
    """Raise InputError unless a deployment.json was rendered by this user on this machine."""
    if text is None:
        what = "is missing: this folder was not rendered with a key of this machine"
        raise InputError.one(f"{folder}/{SIGNATURE}", what, RENDER_HERE)
    if not key.matches(text.strip(), "deployment", deployment):
        what = "does not match: rendered on another machine, or changed after rendering"
        raise InputError.one(f"{folder}/{SIGNATURE}", what, RENDER_HERE)


def existing_key(where: str) -> SigningKey:
    """Return this user's key; InputError if there is none, so nothing here can be verified."""
    folder = user_state_directory()
    try:
        return _read(folder)
    except FileNotFoundError:
        what = f"cannot be verified: there is no key in {folder}"
        raise InputError.one(where, what, RENDER_HERE) from None


def has_key() -> bool:
    """Return whether this user has a key, so that a journal of theirs may exist."""
    return (user_state_directory() / KEY_FILE).exists()


def created_key() -> SigningKey:
    """Return this user's key, created at first use."""
    folder = private_directory(user_state_directory())
    try:
        return _read(folder)
    except FileNotFoundError:
        pass
    temporary = folder / f".{KEY_FILE}.{os.urandom(4).hex()}"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, folder / KEY_FILE)  # unlike a rename, never replaces a key
        except FileExistsError:
            pass  # another process was first
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        fix = "free disk space, or set XDG_STATE_HOME to a folder that only you can write to"
        what = f"cannot be created: {error.strerror}"
        raise ExternalError(str(folder / KEY_FILE), what, fix) from None
    return _read(folder)


def _read(folder: Path) -> SigningKey:
    path = folder / KEY_FILE
    fix = f"delete {path} and render again; or set XDG_STATE_HOME to another folder"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ExternalError(str(path), f"cannot be read: {error.strerror}", fix) from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        secret = file.read(KEY_BYTES + 1)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        raise ExternalError(str(path), "belongs to another user", fix)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise ExternalError(str(path), "can be read or written by other users", fix)
    if len(secret) != KEY_BYTES:
        raise ExternalError(str(path), f"does not hold {KEY_BYTES} bytes", fix)
    private_directory(folder)  # whoever can rename in it can replace the key
    return SigningKey(secret=secret, folder=folder)
