#!/bin/bash
# Requirements of enroot and Pyxis on Ubuntu 24.04: user namespaces, limits, a host name.
set -e
if [ -f /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]; then
  echo 'kernel.apparmor_restrict_unprivileged_userns = 0' >/etc/sysctl.d/90-enroot-namespaces.conf
  sysctl -w kernel.apparmor_restrict_unprivileged_userns=0
fi
[ -f /etc/hostname ] || hostname >/etc/hostname
printf '* - memlock unlimited\n* - stack unlimited\n* - nofile 1048576\n' >/etc/security/limits.d/99-unlimited.conf
# Containers are unpacked on the local SSDs: home directories and boot disk are too small and slow.
if mountpoint -q /mnt/localssd; then
  mkdir -p /etc/enroot
  printf '%s\n' 'ENROOT_CONFIG_PATH ${HOME}/.enroot' 'ENROOT_RUNTIME_PATH /mnt/localssd/${UID}/enroot/runtime' \
    'ENROOT_CACHE_PATH /mnt/localssd/${UID}/enroot/cache' 'ENROOT_DATA_PATH /mnt/localssd/${UID}/enroot/data' \
    'ENROOT_TEMP_PATH /mnt/localssd/${UID}/enroot' >/etc/enroot/enroot.conf
fi
