#!/bin/bash
# What enroot and Pyxis need on Ubuntu 24.04: user namespaces, limits, a host name.
set -e
if [ -f /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]; then
  echo 'kernel.apparmor_restrict_unprivileged_userns = 0' >/etc/sysctl.d/90-enroot-namespaces.conf
  sysctl -w kernel.apparmor_restrict_unprivileged_userns=0
fi
[ -f /etc/hostname ] || hostname >/etc/hostname
printf '* - memlock unlimited\n* - stack unlimited\n* - nofile 1048576\n' >/etc/security/limits.d/99-unlimited.conf
