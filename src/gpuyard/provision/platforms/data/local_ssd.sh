# Local SSDs as one striped disk, for containers: images are larger than the boot disk allows.
if ! mountpoint -q /mnt/localssd; then
  mapfile -t disks < <(ls /dev/disk/by-id/google-local-nvme-ssd-* 2>/dev/null | grep -v part)
  if [ "${#disks[@]}" -gt 0 ]; then
    command -v mdadm >/dev/null || { apt-get update -q && apt-get install -q -y mdadm; }
    if [ ! -e /dev/md/localssd ]; then
      mdadm --create /dev/md/localssd --run --level=0 --force --raid-devices="${#disks[@]}" "${disks[@]}"
      mkfs.ext4 -q -F -m 0 -E lazy_itable_init=1 /dev/md/localssd
    fi
    mkdir -p /mnt/localssd /etc/docker
    mount -o discard,defaults /dev/md/localssd /mnt/localssd
    chmod 1777 /mnt/localssd
    echo '{"data-root": "/mnt/localssd/docker"}' >/etc/docker/daemon.json
    if systemctl is-active --quiet docker; then systemctl restart docker; fi
  fi
fi
