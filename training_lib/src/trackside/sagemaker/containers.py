"""The kind of container in a request of CreateTrainingJob, which decides whether it can hold the library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trackside.contracts.errors import Problem
from trackside.sagemaker.attachment import definitions_of, is_tuning_request

# Repositories of SageMaker's built-in algorithms, in registries of Amazon's own accounts.
# https://docs.aws.amazon.com/sagemaker/latest/dg-ecr-paths/sagemaker-algo-docker-registry-paths.html
BUILT_IN = frozenset(
    {
        "blazingtext",
        "factorization-machines",
        "forecasting-deepar",
        "image-classification",
        "ipinsights",
        "kmeans",
        "knn",
        "lda",
        "linear-learner",
        "ntm",
        "object-detection",
        "object2vec",
        "pca",
        "randomcutforest",
        "semantic-segmentation",
        "seq2seq",
        "xgboost",
    }
)
# These run a script of the user's own if they are given one, and else an algorithm.
SCRIPT_OR_ALGORITHM = frozenset({"sagemaker-xgboost"})
_SCRIPT_PARAMETERS = ("sagemaker_program", "sagemaker_submit_directory")
_IMAGE = re.compile(
    r"\d{12}\.dkr\.ecr(-fips)?\.[a-z0-9-]+\.(amazonaws\.com(\.cn)?|c2s\.ic\.gov|sc2s\.sgov\.gov)/"
    r"(?P<repository>[^:@]+)([:@].*)?"
)


def why_no_library(request: Mapping[str, Any]) -> str:
    """Return the reason why the library cannot run in the container, or cannot write from it; "" if it can.

    `request`: of CreateTrainingJob or CreateHyperParameterTuningJob.
    """
    problems: list[Problem] = []
    parts = [part for _, part in definitions_of(request, problems)] if is_tuning_request(request) else [dict(request)]
    return next((why for part in parts if (why := _why_not(part))), "")


def _why_not(part: Mapping[str, Any]) -> str:
    if part.get("EnableNetworkIsolation"):
        return "its container is cut off from any network (EnableNetworkIsolation), so nothing can be written to S3"
    specification = part.get("AlgorithmSpecification")
    if not isinstance(specification, Mapping):
        return ""
    if specification.get("AlgorithmName"):
        return (
            f"{specification['AlgorithmName']} is an algorithm of the Marketplace or an account, with its own container"
        )
    match = _IMAGE.fullmatch(str(specification.get("TrainingImage", "")))
    repository = match["repository"] if match else ""
    if repository in BUILT_IN:
        return f"{repository} is a built-in algorithm of SageMaker, into whose container nothing can be put"
    given = {**_mapping(part.get("HyperParameters")), **_mapping(part.get("StaticHyperParameters"))}
    if repository in SCRIPT_OR_ALGORITHM and not any(given.get(name) for name in _SCRIPT_PARAMETERS):
        return f"{repository} runs its built-in algorithm here, for no script is given"
    return ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
