# gIB, Google's NCCL plugin for RDMA, from its apt repository (as in the Cluster Toolkit's VM blueprints).
echo '* - memlock unlimited' >/etc/security/limits.d/99-unlimited.conf
curl -fsSL https://us-apt.pkg.dev/doc/repo-signing-key.gpg -o /etc/apt/trusted.gpg.d/us-apt.asc
curl -fsSL https://packages.cloud.google.com/apt/doc/apt-key.gpg -o /etc/apt/trusted.gpg.d/google-cloud.asc
echo 'deb http://packages.cloud.google.com/apt apt-transport-artifact-registry-stable main' \
  >/etc/apt/sources.list.d/artifact-registry.list
apt-get update -q
apt-get install -q -y apt-transport-artifact-registry ibverbs-utils
echo 'deb ar+https://us-apt.pkg.dev/projects/gce-ai-infra gpudirect-gib-apt main' >/etc/apt/sources.list.d/gib.list
apt-get update -q
apt-get install -q -y nccl-gib
