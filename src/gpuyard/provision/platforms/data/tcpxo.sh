# GPUDirect-TCPXO: the DMA-BUF helper, the aperture devices, the NCCL plugin, and its receive daemon (RxDM).
curl -fsSL https://packages.cloud.google.com/apt/doc/apt-key.gpg -o /etc/apt/trusted.gpg.d/google-cloud.asc
echo 'deb http://packages.cloud.google.com/apt apt-transport-artifact-registry-stable main' \
  >/etc/apt/sources.list.d/artifact-registry.list
apt-get update -q
apt-get install -q -y apt-transport-artifact-registry dkms
echo 'deb [arch=all trusted=yes] ar+https://us-apt.pkg.dev/projects/gce-ai-infra gpudirect-tcpxo-apt main' \
  >/etc/apt/sources.list.d/gpudirect-tcpxo.list
apt-get update -q
# Kernels since 6.13 take the namespace of MODULE_IMPORT_NS as a string; the package's source does not.
if ! modinfo import-helper >/dev/null 2>&1 && ! modinfo import_helper >/dev/null 2>&1; then
  helper=$(mktemp -d)
  chmod 0755 "$helper"
  (cd "$helper" && apt-get download dmabuf-import-helper && dpkg-deb -x ./*.deb .)
  source=$(basename "$helper"/usr/src/dmabuf-import-helper-*)
  rm -rf "/usr/src/$source"
  mv "$helper/usr/src/$source" /usr/src/
  if [ "$(printf '6.13\n%s\n' "$(uname -r)" | sort -V | head -n 1)" = 6.13 ]; then
    sed -i 's/MODULE_IMPORT_NS(DMA_BUF)/MODULE_IMPORT_NS("DMA_BUF")/' "/usr/src/$source/import-helper.c"
  fi
  dkms status -m dmabuf-import-helper | grep -q . || dkms add -m dmabuf-import-helper -v "${source##*-}"
  dkms install -m dmabuf-import-helper -v "${source##*-}"
fi
modprobe import-helper || modprobe import_helper
# The rule mounts the aperture devices at every boot.
cat >/etc/udev/rules.d/00-a3-megagpu.rules <<'RULES'
ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x1ae0", ATTR{device}=="0x0084", TAG+="systemd", \
  RUN+="/usr/bin/mkdir --mode=0755 -p /dev/aperture_devices", \
  RUN+="/usr/bin/systemd-mount --type=none --options=bind --collect %S/%p /dev/aperture_devices/%k", \
  RUN+="/usr/bin/bash -c '/usr/bin/chmod 0666 /dev/aperture_devices/%k/resource*'"
RULES
udevadm control --reload
udevadm trigger --action=add --subsystem-match=pci
for wait in $(seq 30); do
  if [ -n "$(ls -A /dev/aperture_devices 2>/dev/null)" ]; then break; fi
  if [ "$wait" = 30 ]; then echo "no aperture devices" >&2; exit 1; fi
  sleep 2
done
registry=us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo
rm -rf /var/lib/tcpxo/lib64
docker run --rm --network host --volume /var/lib:/var/lib \
  "$registry/nccl-plugin-gpudirecttcpx-dev:$PLUGIN_VERSION" install --install-nccl
docker rm --force rxdm >/dev/null 2>&1 || true
docker run --detach --name rxdm --restart unless-stopped --privileged --cap-add NET_ADMIN --network host --gpus all \
  --volume /var/lib/nvidia/lib64:/usr/local/nvidia/lib64 \
  --volume /dev/dmabuf_import_helper:/dev/dmabuf_import_helper \
  --env LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu \
  "$registry/tcpgpudmarxd-dev:$DAEMON_VERSION" --num_hops=2 --num_nics=8 --uid= --alsologtostderr
# A program that starts before the daemon is ready falls back or fails.
for wait in $(seq 60); do
  if docker logs rxdm 2>&1 | grep -q 'Buffer manager initialization complete'; then break; fi
  if [ "$wait" = 60 ]; then docker logs --tail 10 rxdm; exit 1; fi
  sleep 2
done
