"""Validation of Google API requests: URL parameters and methods."""

from __future__ import annotations

import pytest

from gpuyard.provision.validate.google import google_methods

from ..trees import GONE, Change, changed, check, sample


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"parameters.zone": GONE}, 'the parameter "zone" of compute.instances.insert is missing'),
        ({"parameters.requestid": "x"}, 'did you mean "requestId"?'),
        ({"parameters.colour": "x"}, 'has no parameter "colour"'),
    ],
)
def test_wrong_request_parameter_is_an_error(change: Change, expected: str) -> None:
    errors = check(changed(sample("instance-reserved.json"), change)).errors
    assert any(expected in f"{finding.what} {finding.fix}" for finding in errors)


def test_method_has_path_and_query_parameters() -> None:
    api, method = google_methods()["hypercomputecluster.projects.locations.clusters.create"]
    assert api == "hypercomputecluster.v1"
    assert (method.http, method.request) == ("POST", "Cluster")
    assert method.path == "v1/projects/{projectsId}/locations/{locationsId}/clusters"
    assert {"clusterId", "requestId"} <= set(method.query)
