"""For every invariant: samples that satisfy it, and a change that violates it."""

from __future__ import annotations

from dataclasses import dataclass

from ..trees import GONE, Change

POD = "spec.replicatedJobs[0].template.spec.template"
LWS = "spec.leaderWorkerTemplate.workerTemplate"
CONFIG = "body.nodePool.config"
CLUSTER = "body.cluster"
NODES = "deployment_groups[0].modules[3].settings"
DESK = "body.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A rule, samples that satisfy it, and a change of one of them that violates it."""

    rule: str
    samples: tuple[str, ...]
    change: Change
    of: int = 0  # which sample is changed


def case(rule: str, samples: str, change: Change, of: int = 0) -> Case:
    """One case; the samples by their names without spaces."""
    return Case(rule=rule, samples=tuple(samples.split()), change=change, of=of)


def image(name: str) -> str:
    """An image of the TCPXO release."""
    return f"us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/{name}"


CASES = (
    # 1 one offer
    case("one-offer", "instance-reserved.json", {"body.scheduling.preemptible": True}),
    case("one-offer", "node-pool-flex.json", {f"{CONFIG}.spot": True}),
    case("one-offer", "custom-job.json", {"body.jobSpec.workerPoolSpecs[0].machineSpec.reservationAffinity": {"reservationAffinityType": "SPECIFIC_RESERVATION", "key": "compute.googleapis.com/reservation-name", "values": ["r"]}}),
    case("one-offer", "director.json", {"body.computeResources.gpus.config.newSpotInstances": {"machineType": "a3-ultragpu-8g", "zone": "europe-west1-b"}}),
    case("one-offer", "blueprint.yaml", {f"{NODES}.enable_spot_vm": True}),
    case("one-offer", "tpu-queued.json", {"body.reservationName": "r"}),
    case("one-offer", "rayjob.yaml", {'spec.rayClusterSpec.workerGroupSpecs[0].template.spec.nodeSelector."cloud.google.com/gke-flex-start"': "true"}),
    case("offer-exists", "node-pool-flex.json", {f"{CONFIG}.machineType": "a4x-highgpu-4g"}),
    case("offer-exists", "instance-reserved.json", {"body.scheduling.provisioningModel": "STANDARD", "body.reservationAffinity": GONE}),
    # 2 flex-start and queued provisioning
    case("flex-start-alone", "template-flex.json", {"body.properties.reservationAffinity": GONE}),
    case("flex-start-alone", "template-flex.json", {"body.properties.scheduling.instanceTerminationAction": "STOP"}),
    case("flex-start-alone", "template-flex.json", {"body.properties.scheduling.maxRunDuration": GONE}),
    case("flex-start-alone", "node-pool-flex.json", {"body.nodePool.management.autoRepair": True}),
    case("flex-start-alone", "node-pool-flex.json", {"body.nodePool.autoscaling": GONE}),
    case("flex-start-alone", "node-pool-flex.json", {f"{CONFIG}.reservationAffinity.consumeReservationType": "ANY_RESERVATION"}),
    case("flex-start-alone", "blueprint-gke.yaml", {"deployment_groups[0].modules[2].settings.auto_repair": GONE}),
    case("flex-start-alone", "blueprint-gke.yaml", {"deployment_groups[0].modules[2].settings.static_node_count": 4}),
    case("queued-pool", "node-pool-queued.json", {"body.nodePool.autoscaling.minNodeCount": 1}),
    case("queued-pool", "node-pool-queued.json", {"body.nodePool.placementPolicy": {"type": "COMPACT"}}),
    case("queued-pool", "node-pool-queued.json", {f"{CONFIG}.reservationAffinity": GONE}),
    # 3 flex-start and compact
    case("flex-start-compact", "node-pool-flex.json", {f"{CONFIG}.machineType": "a3-megagpu-8g"}),
    case("flex-start-compact", "blueprint-gke.yaml", {"deployment_groups[0].modules[2].settings.machine_type": "a3-highgpu-8g"}),
    # 4 compact
    case("compact-zone", "node-pool-flex.json", {"body.nodePool.locations": ["europe-west1-b", "europe-west1-c"]}),
    case("compact-zone", "node-pool-flex.json", {"body.nodePool.upgradeSettings": {"strategy": "BLUE_GREEN"}}),
    # 5 specific reservation
    case("one-reservation", "instance-reserved.json", {"body.reservationAffinity.values": ["a", "b"]}),
    case("one-reservation", "instance-reserved.json", {"body.reservationAffinity.key": "reservation-name"}),
    case("one-reservation", "instance-reserved.json", {"body.reservationAffinity": GONE}),
    case("one-reservation", "cluster.json", {f"{CLUSTER}.nodePools[1].locations": GONE}),
    case("one-reservation", "cluster.json", {f"{CLUSTER}.nodePools[1].config.reservationAffinity.values": ["b200/blocks/block-1"]}),
    # 6 the reservation's own policy
    case("reservation-mirrored", "instance-reserved.json reservation.json", {"body.resourcePolicies": GONE}),
    case("reservation-mirrored", "instance-reserved.json reservation.json", {"body.specificReservation.instanceProperties.machineType": "a4-highgpu-8g"}, of=1),
    # 7 NICs and networks
    case("all-nics", "instance-reserved.json", {"body.networkInterfaces[9]": GONE}),
    case("all-nics", "instance-reserved.json", {"body.networkInterfaces[3].nicType": "GVNIC"}),
    case("all-nics", "instance-reserved.json", {"body.networkInterfaces[3].network": "projects/my-project/global/networks/other"}),
    case("all-nics", "template-flex.json", {"body.properties.networkInterfaces[8]": GONE}),
    case("all-nics", "template-flex.json", {"body.properties.networkInterfaces[8].network": "projects/my-project/global/networks/yard-data-1"}),
    case("all-nics", "template-flex.json", {"body.properties.networkInterfaces[8].nicType": "VIRTIO_NET"}),
    case("pool-networks", "node-pool-flex.json", {"body.nodePool.networkConfig.additionalNodeNetworkConfigs[8]": GONE}),
    case("pool-networks", "node-pool-flex.json", {"body.nodePool.networkConfig.acceleratorNetworkProfile": "auto"}),
    case("pool-networks", "blueprint.yaml", {"deployment_groups[0].modules[1].settings.network_count": 4}),
    case("roce-zone", "instance-reserved.json network-rdma.json", {"parameters.zone": "europe-west1-c"}),
    case("roce-zone", "instance-reserved.json network-rdma.json", {"body.networkProfile": GONE}, of=1),
    case("data-mtu", "template-flex.json network-data.json", {"body.mtu": 1460}, of=1),
    case("multi-networking", "cluster.json", {f"{CLUSTER}.networkConfig.datapathProvider": GONE}),
    case("multi-networking", "cluster.json", {f"{CLUSTER}.nodePools[1].networkConfig": {"additionalNodeNetworkConfigs": [{"network": "n", "subnetwork": "s"}] * 9}, f"{CLUSTER}.networkConfig.enableMultiNetworking": False}),
    case("dranet-driver", "cluster.json", {f"{CLUSTER}.nodePools[1].config.labels": GONE}),
    case("node-image", "node-pool-flex.json", {f"{CONFIG}.imageType": "UBUNTU_CONTAINERD"}),
    # 8 plugin and daemon
    case("release-pair", "jobset-a3mega.yaml", {f"{POD}.spec.initContainers[0].image": image("tcpgpudmarxd-dev:v9.9.9")}),
    case("release-pair", "jobset-a3mega.yaml", {f"{POD}.spec.initContainers[0].image": image("tcpgpudmarxd-dev:v1.0.12"), f"{POD}.spec.containers[0].image": image("nccl-plugin-gpudirecttcpx-dev:v1.0.15")}),
    # 9 sidecar
    case("daemon-sidecar", "jobset-a3mega.yaml", {f"{POD}.spec.initContainers[0].restartPolicy": GONE}),
    # 10 annotations
    case("annotations", "jobset-a3mega.yaml", {f'{POD}.metadata.annotations."devices.gke.io/container.rxdm"': "- path: /dev/nvidia0\n"}),
    case("annotations", "jobset-a3mega.yaml", {f'{POD}.metadata.annotations."networking.gke.io/interfaces"': "[{interfaceName: eth0}]"}),
    case("annotations", "jobset-a3mega.yaml", {f'{POD}.metadata.annotations."networking.gke.io/default-interface"': "eth9"}),
    case("annotations", "jobset-a3mega.yaml", {"2:metadata.name": "vpc-1"}),
    case("annotations", "jobset-a3mega.yaml", {"3:metadata.name": "vpc-1"}),
    # 11 GKE versions
    case("gke-version", "node-pool-flex.json", {"body.nodePool.version": "1.31.4-gke.1000000"}),
    case("gke-version", "node-pool-flex.json", {"body.nodePool.version": "1.30.9-gke.1000000"}),
    case("gke-version", "cluster.json", {f"{CLUSTER}.initialClusterVersion": "1.33.5-gke.1080000"}),
    # 12 GPUs, machines and labels
    case("gpus-agree", "node-pool-flex.json", {f"{CONFIG}.accelerators[0].acceleratorCount": "4"}),
    case("gpus-agree", "node-pool-flex.json", {f"{CONFIG}.accelerators[0].acceleratorType": "nvidia-b200"}),
    case("gpus-agree", "custom-job.json", {"body.jobSpec.workerPoolSpecs[1].machineSpec.acceleratorType": "NVIDIA_H100_80GB"}),
    case("gpus-agree", "deploy.json", {"body.deployedModel.dedicatedResources.machineSpec.acceleratorCount": 4}),
    case("gpus-agree", "instance-reserved.json", {"body.guestAccelerators": [{"acceleratorType": "zones/europe-west1-b/acceleratorTypes/nvidia-l4", "acceleratorCount": 8}]}),
    case("pod-gpus", "jobset-a3mega.yaml", {f'{POD}.spec.nodeSelector."cloud.google.com/gke-accelerator"': "nvidia-h100-mega"}),
    case("pod-gpus", "jobset-a3mega.yaml", {f'{POD}.spec.containers[0].resources.limits."nvidia.com/gpu"': 16}),
    case("pod-gpus", "lws.yaml", {f'{LWS}.spec.nodeSelector."cloud.google.com/gke-accelerator"': "nvidia-tesla-t4"}),
    case("machine-exists", "node-pool-flex.json", {f"{CONFIG}.machineType": "a3-ultragpu-4g"}),
    case("boot-disk", "node-pool-flex.json", {f"{CONFIG}.diskType": "pd-ssd"}),
    case("boot-disk", "instance-reserved.json", {"body.disks[0].initializeParams.diskType": "zones/europe-west1-b/diskTypes/pd-ssd"}),
    case("gpus-agree", "template-desk.json", {f"{DESK}.guestAccelerators[0].acceleratorCount": 2}),
    case("workstation", "template-desk.json", {f"{DESK}.guestAccelerators": GONE}),
    case("workstation", "template-desk.json", {f"{DESK}.guestAccelerators[0].acceleratorType": "nvidia-l4"}),
    case("workstation", "template-desk.json", {f"{DESK}.machineType": "g4-standard-48"}),
    case("workstation", "template-desk.json", {f"{DESK}.machineType": "g4-standard-24"}),
    case("workstation", "template-desk.json", {f"{DESK}.machineType": "n1-standard-8"}),
    case("workstation", "template-desk.json", {f"{DESK}.scheduling.provisioningModel": "SPOT"}),
    case("workstation", "template-desk.json", {f"{DESK}.scheduling.preemptible": True}),
    # 13 length of runs
    case("run-length", "resize.json", {"body.requestedRunDuration.seconds": "300"}),
    case("run-length", "resize.json", {"body.requestedRunDuration.seconds": "700000"}),
    case("run-length", "custom-job.json", {"body.jobSpec.scheduling.timeout": "700000s"}),
    case("run-length", "director.json", {"body.computeResources.gpus.config.newFlexStartInstances.maxDuration": "60s"}),
    case("run-length", "kueue.yaml", {'7:metadata.annotations."provreq.kueue.x-k8s.io/maxRunDurationSeconds"': "999999"}),
    # 14 Vertex AI
    case("vertex-primary", "custom-job.json", {"body.jobSpec.workerPoolSpecs[0].replicaCount": "2"}),
    case("vertex-flex", "custom-job.json", {"body.jobSpec.workerPoolSpecs[1].machineSpec": {"machineType": "a3-highgpu-8g", "acceleratorType": "NVIDIA_H100_80GB", "acceleratorCount": 8}}),
    case("endpoint-replicas", "deploy.json", {"body.deployedModel.dedicatedResources.minReplicaCount": 0}),
    case("endpoint-replicas", "deploy.json", {"body.trafficSplit": {"0": 90}}),
    # 15 Cloud Run
    case("cloud-run-host", "run-service.json", {"body.template.containers[0].resources.limits.cpu": "2"}),
    case("cloud-run-host", "run-service.json", {"body.template.containers[0].resources.limits.memory": "8Gi"}),
    case("cloud-run-host", "run-service.json", {'body.template.containers[0].resources.limits."nvidia.com/gpu"': "2"}),
    case("cloud-run-host", "run-service.json", {"body.template.containers[0].resources.cpuIdle": GONE}),
    case("cloud-run-host", "run-service.json", {"body.template.nodeSelector.accelerator": "nvidia-t4"}),
    case("cloud-run-host", "run-job.json", {"body.template.template.containers[0].resources.limits.cpu": "8"}),
    case("cloud-run-host", "knative-service.yaml", {"spec.template.spec.containers[0].resources.limits.memory": "512Mi"}),
    case("cloud-run-bound", "run-service.json", {"body.template.scaling": GONE}),
    case("cloud-run-bound", "run-job.json", {"body.template.template.timeout": GONE}),
    case("cloud-run-bound", "knative-service.yaml", {'spec.template.metadata.annotations."autoscaling.knative.dev/maxScale"': GONE}),
    # 16 the group holds the model
    case("model-fits-group", "lws.yaml", {"spec.leaderWorkerTemplate.size": 1}),
    case("weights-fit", "lws.yaml", {f"{LWS}.spec.containers[0].args": ["vllm serve meta-llama/Llama-3.1-70B --tensor-parallel-size 4"]}),
    # 17 Kueue
    case("kueue-topology", "kueue.yaml", {"1:spec.levels[0].nodeLabel": "cloud.google.com/gce-topology-host", "1:spec.levels[2].nodeLabel": "cloud.google.com/gce-topology-block"}),
    case("kueue-topology", "kueue.yaml", {"2:spec.nodeLabels": GONE}),
    case("kueue-topology", "kueue.yaml", {"2:spec.topologyName": "other"}),
    case("kueue-names", "kueue.yaml", {"6:spec.clusterQueue": "gpu"}),
    case("kueue-names", "kueue.yaml", {"5:spec.resourceGroups[0].flavors[0].name": "a3"}),
    case("kueue-names", "kueue.yaml", {"5:spec.admissionChecksStrategy.admissionChecks[0].name": "other"}),
    case("kueue-names", "kueue.yaml", {'7:metadata.labels."kueue.x-k8s.io/queue-name"': "gpu-queue"}),
    case("kueue-covers", "kueue.yaml", {"7:spec.template.spec.containers[0].resources.requests": {"cpu": "8"}}),
    # 18 addresses
    case("subnets-apart", "subnet-host.json subnet-rdma.json", {"body.ipCidrRange": "10.0.8.0/22"}, of=1),
    case("subnets-apart", "subnet-host.json cluster.json", {f"{CLUSTER}.ipAllocationPolicy.clusterIpv4CidrBlock": "10.4.0.0/16"}, of=1),
    case("subnets-apart", "subnet-host.json filestore.json", {"body.networks[0].reservedIpRange": "10.8.1.0/26"}, of=1),
    case("subnets-apart", "subnet-host.json", {"body.ipCidrRange": "10.0.0.0/99"}),
    case("subnets-apart", "blueprint.yaml", {"vars.rdma_range": "10.0.4.0/24"}),
    # 19 A4X
    case("a4x-rack", "jobset-a4x.yaml", {"3:spec.replicatedJobs[0].template.spec.template.spec.resourceClaims[0]": GONE}),
    case("a4x-rack", "jobset-a4x.yaml", {'3:spec.replicatedJobs[0].template.spec.template.spec.nodeSelector."kubernetes.io/arch"': "amd64"}),
    case("a4x-rack", "jobset-a4x.yaml", {"3:spec.replicatedJobs[0].template.spec.template.spec.containers[0].image": "us-docker.pkg.dev/gce-ai-infra/gpudirect-gib/nccl-plugin-gib-diagnostic:v1.1.1"}),
    case("a4x-rack", "jobset-a4x.yaml", {"3:spec.replicatedJobs[0].template.spec.parallelism": 20, "3:spec.replicatedJobs[0].template.spec.completions": 20}),
    case("one-policy", "group.json template-flex.json policy-workload.json", {"body.properties.resourcePolicies": ["yard-compact"]}, of=1),
    case("one-policy", "group.json template-flex.json policy-workload.json", {"body.properties.machineType": "a4x-highgpu-4g"}, of=1),
    # 20 an end
    case("has-an-end", "instance-reserved.json", {"body.scheduling.maxRunDuration": GONE}),
    case("has-an-end", "reservation.json", {"body.deleteAfterDuration": GONE}),
    case("has-an-end", "cluster.json", {f"{CLUSTER}.nodePools[1].autoscaling": GONE}),
    case("has-an-end", "custom-job.json", {"body.jobSpec.scheduling": GONE}),
    case("has-an-end", "tpu-queued.json", {"body.queueingPolicy": GONE}),
    case("has-an-end", "jobset-a3mega.yaml", {"spec.ttlSecondsAfterFinished": GONE}),
    case("has-an-end", "rayjob.yaml", {"spec.ttlSecondsAfterFinished": GONE, "spec.activeDeadlineSeconds": GONE}),
    case("script-end", "train.sbatch", {"#SBATCH --time=0-04:00:00\n": GONE}),
    # what is lost comes back, and what restarts ends
    case("restart-limit", "jobset-a3mega.yaml", {"spec.replicatedJobs[0].template.spec.activeDeadlineSeconds": 5184000, "spec.replicatedJobs[0].template.spec.parallelism": 32, "spec.replicatedJobs[0].template.spec.completions": 32}),
    case("lost-machine", "group-work.json template-work.json", {"body.targetSizePolicy": {"mode": "BULK"}}),
    case("lost-machine", "group-work.json template-work.json", {"body.instanceLifecyclePolicy.defaultActionOnFailure": "DO_NOTHING"}),
    case("service-end", "lws.yaml node-pool-flex.json", {f"{CONFIG}.flexStart": GONE}, of=1),
    case("nccl-order", "train.sbatch", {"export NCCL_NET=gIB\n": "export NCCL_NET=gIB NCCL_SOCKET_IFNAME=enp0s12\nsource /var/lib/tcpxo/lib64/nccl-env-profile.sh\n"}),
    case("nccl-order", "train.sbatch", {"export NCCL_NET=gIB\n": "export NCCL_NET=gIB\nexport LD_LIBRARY_PATH=/usr/local/gib/lib64\n"}),
    # 21 texts
    case("text-values", "jobset-a3mega.yaml", {f'{POD}.spec.nodeSelector."cloud.google.com/gke-accelerator-count"': 8}),
    case("text-values", "lws.yaml", {f"{LWS}.spec.containers[0].env[0].value": 8000}),
    case("text-values", "lws.yaml", {f'{LWS}.metadata.annotations."gke-gcsfuse/volumes"': True}),
    case("known-keys", "jobset-a3mega.yaml", {f'{POD}.metadata.annotations."networking.gke.io/interface"': "[]"}),
    case("known-keys", "lws.yaml", {f'{LWS}.spec.nodeSelector."cloud.google.com/gke-flexstart"': "true"}),
    case("known-keys", "rayjob.yaml", {"spec.rayClusterSpec.headGroupSpec.template.spec.containers[0].resources.limits.cpus": "4"}),
    # 22 names
    case("names", "jobset-a4x.yaml", {"1:metadata.name": GONE}),
    case("names", "jobset-a3mega.yaml", {"metadata.name": "a-very-long-name-of-a-training-run-with-many-words-in-it"}),
    case("names", "jobset-a3mega.yaml", {"metadata.name": "Train"}),
    case("names", "director.json", {"parameters.clusterId": "yard-cluster"}),
    case("names", "node-pool-flex.json", {"body.nodePool.name": "a-pool-with-a-name-of-more-than-forty-characters"}),
    case("names", "blueprint.yaml", {"deployment_groups[0].modules[6].settings.slurm_cluster_name": "Yard_Cluster"}),
    case("names", "rayjob.yaml", {"metadata.name": "a-ray-job-with-a-name-of-more-than-forty-seven-c"}),
    case("names", "network-data.json", {"body.name": "yard_data"}),
    # what 2.3 to 2.8 of a deployment also need
    case("host-maintenance", "instance-reserved.json", {"body.scheduling.onHostMaintenance": "MIGRATE"}),
    case("host-maintenance", "instance-reserved.json", {"body.scheduling.onHostMaintenance": GONE}),
    case("director-cluster", "director.json", {"body.orchestrator.slurm.nodeSets[0].computeId": "gpu"}),
    case("director-cluster", "director.json", {"body.networkResources.other": {"config": {"newNetwork": {"network": "projects/p/global/networks/n"}}}}),
    case("director-cluster", "director.json", {"body.orchestrator.slurm.partitions[1]": {"id": "other", "nodeSetIds": ["gpus"]}}),
    case("fabric-reached", "jobset-a3mega.yaml", {f"{POD}.spec.initContainers": GONE}),
    case("fabric-reached", "jobset-a4.yaml", {f"{POD}.spec.containers[0].volumeMounts[0]": GONE}),
    case("fabric-reached", "jobset-a4x.yaml", {"2:spec.spec.devices.requests[0].exactly.count": 2}),
    case("indexed-together", "jobset-a3mega.yaml", {"spec.replicatedJobs[0].template.spec.completions": 8}),
    case("bucket-sidecar", "lws.yaml", {f"{LWS}.metadata.annotations": GONE}),
    case("shared-memory", "lws.yaml", {f"{LWS}.spec.containers[0].volumeMounts[0]": GONE}),
    case("script-whole-nodes", "train.sbatch", {"#SBATCH --exclusive\n": GONE, "#SBATCH --mem=0\n": GONE}),
    case("script-tasks", "train.sbatch", {"--ntasks-per-node=1": "--ntasks-per-node=4"}),
    case("script-tasks", "train.sbatch", {"--ntasks-per-node=1": "--ntasks-per-node=8"}),
    case("script-nccl", "train.sbatch", {"source /usr/local/gib/scripts/set_nccl_env.sh && ": GONE, "export NCCL_NET=gIB\n": GONE}),
    # what the API accepts and the launch cannot use
    case("volumes-exist", "jobset-a3mega.yaml", {f"{POD}.spec.containers[0].volumeMounts[0].name": "nothing"}),
    case("volumes-exist", "jobset-a4.yaml", {f"{POD}.spec.volumes[0].name": "other"}),
    case("service-account", "jobset-a4.yaml service-account.yaml", {f"{POD}.spec.serviceAccountName": "trian"}),
    case("requests-fit", "jobset-a3mega.yaml", {f"{POD}.spec.containers[0].resources.requests": {"cpu": "400"}}),
    case("requests-fit", "jobset-a3mega.yaml", {f"{POD}.spec.containers[0].resources.requests": {"memory": "4Ti"}}),
    case("processes-per-node", "jobset-a4.yaml", {f"{POD}.spec.containers[0].args[0]": "source /usr/local/gib/scripts/set_nccl_env.sh\ntorchrun --nproc-per-node=4 train.py"}),
    case("processes-per-node", "train.sbatch", {"--nproc-per-node=8": "--nproc_per_node 1"}),
    case("processes-per-node", "train.sbatch", {"--gpus-per-node=8": "--gpus-per-node=4"}),
    case("node-count", "jobset-a4.yaml", {f"{POD}.spec.containers[0].env[0]": {"name": "NNODES", "value": "16"}}),
    case("node-count", "jobset-a4.yaml", {f"{POD}.spec.containers[0].args[0]": "source /usr/local/gib/scripts/set_nccl_env.sh\ntorchrun --nnodes 4 --nproc-per-node=8 train.py"}),
    case("node-count", "train.sbatch", {"--nnodes=2": "--nnodes=4"}),
    case("master-address", "jobset-a4.yaml", {f"{POD}.spec.containers[0].env[0]": {"name": "MASTER_ADDR", "value": "other-worker-0-0.other"}}),
    case("known-keys", "jobset-a4.yaml", {'metadata.labels': {"kueue.x-k8s.io/queue": "gpus"}}),
    case("known-keys", "jobset-a4.yaml", {f"{POD}.spec.tolerations": [{"key": "cloud.google.com/gke-spott", "operator": "Exists"}]}),
    # what one file names and another has
    case("device-requests", "lws.yaml", {f"{LWS}.spec.containers[0].resources.requests": {"nvidia.com/gpu": 4}}),
    case("service-pods", "lws.yaml", {'3:spec.selector."leaderworkerset.sigs.k8s.io/name"': "other"}),
    case("ports", "lws.yaml", {f"{LWS}.spec.containers[0].ports": [{"containerPort": 8000}], f"{LWS}.spec.containers[0].readinessProbe": {"httpGet": {"path": "/health", "port": 9}}}),
    case("ports", "lws.yaml", {f"{LWS}.spec.containers[0].ports": [{"containerPort": 8000}], "3:spec.ports[0].targetPort": 9}),
    case("scale-target", "lws.yaml", {"2:spec.scaleTargetRef.name": "vlm"}),
    case("mounted-objects", "jobset-a4x.yaml", {"3:spec.replicatedJobs[0].template.spec.template.spec.resourceClaims[1].resourceClaimTemplateName": "all-rdmas"}),
    case("links-exist", "group-work.json template-work.json", {"body.instanceTemplate": "projects/my-project/global/instanceTemplates/yard-wrk"}),
    case("one-zone", "instance-reserved.json", {"parameters.zone": "europe-west1-c"}),
    case("image-family", "template-work.json", {"body.properties.disks[0].initializeParams.sourceImage": "projects/ubuntu-os-cloud/global/images/family/ubuntu-lts"}),
    case("image-family", "blueprint.yaml", {"vars.image": {"family": "slurm-gcp-6-12-none", "project": "schedmd-slurm-public"}}),
    case("placement-distance", "blueprint.yaml", {f"{NODES}.placement_max_distance": 9}),
    case("boot-disk", "blueprint-gke.yaml", {"deployment_groups[0].modules[2].settings.disk_type": "pd-ssd"}),
    case("shared-memory", "jobset-a4.yaml", {f"{POD}.spec.volumes[2].emptyDir.sizeLimit": "64Ti"}),
    case("kueue-topology", "jobset-a4x.yaml", {'3:spec.replicatedJobs[0].template.spec.template.metadata.annotations."kueue.x-k8s.io/podset-required-topology"': "cloud.google.com/gce-topology-subblocks"}),
    case("pod-gpus", "kueue.yaml", {'2:spec.nodeLabels."cloud.google.com/gke-accelerator"': "nvidia-h100"}),
    case("ports", "lws.yaml", {f"{LWS}.spec.containers[0].args": ["vllm serve /models --port 8000"], "3:spec.ports[0].targetPort": 9}),
    case("boot-disk", "blueprint.yaml", {f"{NODES}.machine_type": "h4d-standard-192", f"{NODES}.disk_type": "pd-ssd"}),
    case("gpus-agree", "template-desk.json", {f"{DESK}.machineType": "n1-standard-8", f"{DESK}.guestAccelerators[0].acceleratorType": "nvidea-tesla-t4"}),
    case("host-maintenance", "template-desk.json", {f"{DESK}.machineType": "n1-standard-8", f"{DESK}.scheduling.onHostMaintenance": "MIGRATE"}),
)  # fmt: skip
