# Nothing upgrades kernel, driver or plugin while the job runs.
printf 'APT::Periodic::Update-Package-Lists "0";\nAPT::Periodic::Unattended-Upgrade "0";\n' \
  >/etc/apt/apt.conf.d/20auto-upgrades
systemctl stop unattended-upgrades apt-daily.timer apt-daily-upgrade.timer || true
apt-mark hold google-compute-engine google-compute-engine-oslogin google-guest-agent google-osconfig-agent \
  'libnvidia-cfg1-*-server' 'libnvidia-compute-*-server' 'libnvidia-nscq-*' 'nvidia-compute-utils-*-server' \
  'nvidia-fabricmanager-*' 'nvidia-utils-*-server' 'nvidia-imex-*' || true
