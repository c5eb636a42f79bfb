"""The bucket of checkpoints and models."""

from __future__ import annotations

from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.platforms.requests import Request


def bucket_requests(settings: ResolvedSettings, content: str = "checkpoint") -> tuple[Request, ...]:
    """Return the request that creates the bucket; none if the user named one.

    The bucket outlives the machines, because it holds the checkpoints or models.
    """
    if settings.requested.bucket:
        return ()
    request = Request(
        file="05-bucket.json",
        what=f"Create the private {content} bucket {settings.bucket}",
        method="storage.buckets.insert",
        parameters={"project": settings.project},
        body={
            "name": settings.bucket,
            "location": settings.region.upper(),
            "labels": settings.labels,
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
            "hierarchicalNamespace": {"enabled": True},
        },
        resource=settings.bucket,
    )
    return (request,)
