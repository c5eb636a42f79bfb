"""The bucket of checkpoints."""

from __future__ import annotations

from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.settings import Place

__all__ = ["bucket_requests"]


def bucket_requests(place: Place) -> tuple[Request, ...]:
    """The request that makes the bucket; none where one was named. It outlives the machines: checkpoints are in it."""
    if place.settings.bucket:
        return ()
    request = Request(
        file="05-bucket.json",
        what=f"bucket {place.bucket} for checkpoints, private, in the region of the machines",
        method="storage.buckets.insert",
        parameters={"project": place.project},
        body={
            "name": place.bucket,
            "location": place.region.upper(),
            "labels": place.labels,
            "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"},
            "hierarchicalNamespace": {"enabled": True},
        },
        resource=place.bucket,
    )
    return (request,)
