#!/bin/bash
# Slurm with Pyxis and enroot, from Google's Ansible playbook.
set -e -o pipefail
ansible-galaxy role install googlecloudplatform.google_cloud_ops_agents
ansible-pull -U https://github.com/GoogleCloudPlatform/slurm-gcp -C SLURM_GCP \
  -i localhost, --limit localhost --connection=local \
  -e '{"reboot": false, "install_cuda": false, "install_gcsfuse": true, "install_lustre": false, "install_ompi": true}' \
  -e '{"allow_kernel_upgrades": false, "monitoring_agent": "cloud-ops"}' \
  ansible/playbook.yml
