# Ranks follow the topology: machines of one rack get neighbouring ranks. All machines have to be there first.
topology=resourceStatus.physicalHostTopology
while :; do
  mapfile -t NODES < <(gcloud compute instances list --filter="labels.plan-hash=$PLAN_HASH AND status=RUNNING" \
    --format="csv[no-heading]($topology.cluster,$topology.block,$topology.subblock,$topology.host,name)" |
    sort | awk -F, '{ print $NF }')
  if [ "${#NODES[@]}" -ge "$NODE_COUNT" ]; then break; fi
  echo "waiting: ${#NODES[@]} of $NODE_COUNT machines run"
  sleep 10
done
for index in "${!NODES[@]}"; do
  if [ "${NODES[$index]}" = "$(hostname -s)" ]; then export NODE_RANK=$index; fi
done
export MASTER_ADDR=${NODES[0]}
