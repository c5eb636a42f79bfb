# GPUDirect-TCPXO: the DMA-BUF helper, the aperture devices, the NCCL plugin, and its receive daemon (RxDM).
curl -fsSL https://packages.cloud.google.com/apt/doc/apt-key.gpg -o /etc/apt/trusted.gpg.d/google-cloud.asc
echo 'deb http://packages.cloud.google.com/apt apt-transport-artifact-registry-stable main' \
  >/etc/apt/sources.list.d/artifact-registry.list
apt-get update -q
apt-get install -q -y apt-transport-artifact-registry dkms
echo 'deb [arch=all trusted=yes] ar+https://us-apt.pkg.dev/projects/gce-ai-infra gpudirect-tcpxo-apt main' \
  >/etc/apt/sources.list.d/gpudirect-tcpxo.list
apt-get update -q
apt-get install -q -y dmabuf-import-helper
modprobe import-helper || modprobe import_helper
mkdir -p /dev/aperture_devices
for device in /sys/bus/pci/devices/*; do
  if [ "$(cat "$device/vendor")" = 0x1ae0 ] && [ "$(cat "$device/device")" = 0x0084 ]; then
    mkdir -p "/dev/aperture_devices/${device##*/}"
    mount --bind "$device" "/dev/aperture_devices/${device##*/}"
    chmod 0666 "/dev/aperture_devices/${device##*/}"/resource*
  fi
done
registry=us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo
docker run --rm --volume /var/lib:/var/lib "$registry/nccl-plugin-gpudirecttcpx-dev:$PLUGIN_VERSION" \
  install --install-nccl
docker run --detach --name rxdm --restart unless-stopped --privileged --network host --gpus all \
  --volume /var/lib/tcpxo/lib64:/usr/local/nvidia/lib64 \
  --env LD_LIBRARY_PATH=/usr/local/nvidia/lib64 \
  "$registry/tcpgpudmarxd-dev:$DAEMON_VERSION" --num_hops=2
