# NCCL plugin of the machine's fabric, if Vertex AI mounts one into the container.
if [ -r /usr/local/gib/scripts/set_nccl_env.sh ]; then
  source /usr/local/gib/scripts/set_nccl_env.sh
  export NCCL_NET=gIB LD_LIBRARY_PATH="/usr/local/gib/lib64:${LD_LIBRARY_PATH:-}"
elif [ -r /usr/local/nvidia/lib64/nccl-env-profile.sh ]; then
  source /usr/local/nvidia/lib64/nccl-env-profile.sh
fi
