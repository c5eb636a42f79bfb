# Docker with GPU support: the accelerator image has the driver; the rest is in NVIDIA's and Ubuntu's repositories.
export DEBIAN_FRONTEND=noninteractive
if ! command -v docker >/dev/null; then
  apt-get update -q
  apt-get install -q -y docker.io
fi
if command -v nvidia-smi >/dev/null && ! command -v nvidia-ctk >/dev/null; then
  keyring=cuda-keyring_1.1-1_all.deb
  repository=https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404
  arch=$([ "$(uname -m)" = aarch64 ] && echo sbsa || echo x86_64)
  curl -fsSLO "$repository/$arch/$keyring"
  dpkg -i "$keyring"
  apt-get update -q
  apt-get install -q -y nvidia-container-toolkit
  nvidia-ctk runtime configure --runtime=docker
  systemctl restart docker
fi
gcloud auth configure-docker --quiet us-docker.pkg.dev,us-central1-docker.pkg.dev || true
