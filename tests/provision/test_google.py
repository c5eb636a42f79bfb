"""Google requests: parameters of the address beside the body."""

from __future__ import annotations

import pytest

from gpuyard.provision.validate.google import google_methods

from .trees import GONE, Change, changed, check, sample


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parameters.zone": GONE}, 'the parameter "zone" of compute.instances.insert is missing'),
        ({"parameters.requestid": "x"}, 'did you mean "requestId"?'),
        ({"parameters.colour": "x"}, 'has no parameter "colour"'),
    ],
)
def test_parameters(change: Change, said: str) -> None:
    found = check(changed(sample("instance-reserved.json"), change)).errors
    assert any(said in f"{finding.what} {finding.fix}" for finding in found)


def test_methods_tell_their_address() -> None:
    api, method = google_methods()["hypercomputecluster.projects.locations.clusters.create"]
    assert api == "hypercomputecluster.v1"
    assert (method.http, method.request) == ("POST", "Cluster")
    assert method.path == "v1/projects/{projectsId}/locations/{locationsId}/clusters"
    assert {"clusterId", "requestId"} <= set(method.query)
