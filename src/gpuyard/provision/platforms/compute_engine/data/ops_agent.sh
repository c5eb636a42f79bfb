# Ops Agent: GPU utilisation as a metric (docs.cloud.google.com/stackdriver/docs/solutions/agents/ops-agent).
if ! systemctl is-active --quiet google-cloud-ops-agent; then
  curl -fsSO https://dl.google.com/cloudagents/add-google-cloud-ops-agent-repo.sh
  bash add-google-cloud-ops-agent-repo.sh --also-install
fi
