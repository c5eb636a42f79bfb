"""Names of rendered files that are another form of the files that are applied."""

from __future__ import annotations

KUSTOMIZATION = "kustomization.yaml"
TERRAFORM_FOLDER, XPK_FOLDER = "terraform", "xpk"


def is_extra_file(name: str) -> bool:
    """Return whether a rendered file is another form of the files that are applied."""
    return name == KUSTOMIZATION or name.startswith((f"{TERRAFORM_FOLDER}/", f"{XPK_FOLDER}/"))
