#!/bin/bash
# NVLink between machines: IMEX starts with each job and stops when it ends.
set -e
root=/opt/apps/adm/slurm
source=https://raw.githubusercontent.com/GoogleCloudPlatform/slurm-gcp/SLURM_GCP/tools/prologs-epilogs
mkdir -p "$root/scripts" "$root/prolog_slurmd.d" "$root/epilog_slurmd.d"
for part in prolog epilog; do
  curl -fsS -o "$root/scripts/imex_$part" "$source/imex_$part"
  chmod 0755 "$root/scripts/imex_$part"
  ln -sf "$root/scripts/imex_$part" "$root/${part}_slurmd.d/imex_$part.${part}_slurmd"
done
