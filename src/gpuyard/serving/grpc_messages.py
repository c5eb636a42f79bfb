"""Messages of the Open Inference Protocol over gRPC, built from a table of their fields.

They live in a separate descriptor pool, so that a client library in the same process may
register the same names. Source of names and numbers: open_inference_grpc.proto of the protocol,
https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"
HEALTH = "grpc.health.v1.Health"  # which Kubernetes probes call
_NUMBERS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13,
}  # fmt: skip
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3

# Fields in the order of their numbers, from 1; `*` is repeated, `@` a map from names to parameters.
_FIELDS = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "live bool",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "ready bool",
    "ModelReadyRequest": "name string, version string",
    "ModelReadyResponse": "ready bool",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "name string, version string, extensions *string",
    "ModelMetadataRequest": "name string, version string",
    "ModelMetadataResponse.TensorMetadata": "name string, datatype string, shape *int64",
    "ModelMetadataResponse": (
        "name string, versions *string, platform string,"
        " inputs *ModelMetadataResponse.TensorMetadata,"
        " outputs *ModelMetadataResponse.TensorMetadata"
    ),
    "InferParameter": (
        "bool_param bool, int64_param int64, string_param string, double_param double,"
        " uint64_param uint64"
    ),
    "InferTensorContents": (
        "bool_contents *bool, int_contents *int32, int64_contents *int64, uint_contents *uint32,"
        " uint64_contents *uint64, fp32_contents *float, fp64_contents *double,"
        " bytes_contents *bytes"
    ),
    "ModelInferRequest.InferInputTensor": (
        "name string, datatype string, shape *int64, parameters @, contents InferTensorContents"
    ),
    "ModelInferRequest.InferRequestedOutputTensor": "name string, parameters @",
    "ModelInferRequest": (
        "model_name string, model_version string, id string, parameters @,"
        " inputs *ModelInferRequest.InferInputTensor,"
        " outputs *ModelInferRequest.InferRequestedOutputTensor, raw_input_contents *bytes"
    ),
    "ModelInferResponse.InferOutputTensor": (
        "name string, datatype string, shape *int64, parameters @, contents InferTensorContents"
    ),
    "ModelInferResponse": (
        "model_name string, model_version string, id string, parameters @,"
        " outputs *ModelInferResponse.InferOutputTensor, raw_output_contents *bytes"
    ),
    "HealthCheckRequest": "service string",
    "HealthCheckResponse": "status int32",  # an enumeration, with the same encoding
}
_ONEOF = {"InferParameter": "parameter_choice"}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="gpuyard/open_inference.proto", package=PACKAGE, syntax="proto3"
    )
    messages: dict[str, descriptor_pb2.DescriptorProto] = {}
    for name in sorted(_FIELDS, key=lambda name: name.count(".")):
        outer, _, inner = name.rpartition(".")
        place = messages[outer].nested_type if outer else file.message_type
        messages[name] = place.add(name=inner)
        if name in _ONEOF:
            messages[name].oneof_decl.add(name=_ONEOF[name])
    for name, fields in _FIELDS.items():
        for number, field in enumerate(filter(None, fields.split(",")), 1):
            _add_field(messages[name], name, number, *field.split())
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto, owner: str, number: int, name: str, kind: str
) -> None:
    field: Any = message.field.add(name=name, number=number, label=_OPTIONAL)
    if kind == "@":
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_OPTIONAL, type=_NUMBERS["string"])
        value: Any = entry.field.add(name="value", number=2, label=_OPTIONAL, type=_MESSAGE)
        value.type_name = f".{PACKAGE}.InferParameter"
        field.type_name, field.type = f".{PACKAGE}.{owner}.{entry.name}", _MESSAGE
        field.label = _REPEATED
        return
    if kind.startswith("*"):
        kind, field.label = kind[1:], _REPEATED
    if kind in _NUMBERS:
        field.type = _NUMBERS[kind]
    else:
        field.type, field.type_name = _MESSAGE, f".{PACKAGE}.{kind}"
    if owner in _ONEOF:
        field.oneof_index = 0


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    file = _file()
    pool.Add(file)
    names = [message.name for message in file.message_type]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in names
    }


MESSAGES: dict[str, Any] = _classes()  # by name; their fields are known only at run time
