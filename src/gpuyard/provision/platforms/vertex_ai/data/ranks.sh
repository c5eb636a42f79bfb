# CLUSTER_SPEC lists the addresses of all replicas, pool by pool; the primary is rank 0.
ranks=$(python3 -c '
import json, os
spec = json.loads(os.environ["CLUSTER_SPEC"])
pools, task = spec["cluster"], spec["task"]
hosts = [host for pool in sorted(pools) for host in pools[pool]]
rank = hosts.index(pools[task["type"]][int(task["index"])])
print("NODE_RANK=%d NODE_COUNT=%d MASTER_ADDR=%s" % (rank, len(hosts), hosts[0].rsplit(":", 1)[0]))
')
export $ranks
