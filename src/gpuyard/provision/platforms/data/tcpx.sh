# GPUDirect-TCPX: the NCCL plugin and its receive daemon (RxDM).
registry=us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx
docker run --rm --volume /var/lib:/var/lib "$registry/nccl-plugin-gpudirecttcpx-dev:$PLUGIN_VERSION" \
  install --install-nccl
mkdir -p /run/tcpx
docker rm --force rxdm >/dev/null 2>&1 || true
docker run --detach --name rxdm --restart unless-stopped --privileged --network host --gpus all \
  --volume /var/lib/tcpx/lib64:/usr/local/nvidia/lib64 --volume /run/tcpx:/run/tcpx \
  --env LD_LIBRARY_PATH=/usr/local/nvidia/lib64 \
  "$registry/tcpgpudmarxd-dev:$DAEMON_VERSION" \
  --gpu_nic_preset a3vm --gpu_shmem_type fd --uds_path /run/tcpx --setup_param '--verbose 128 2 0'
