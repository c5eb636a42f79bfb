"""Files that people write: read with the place of every value, decoded strictly into frozen values."""

from gpuyard.document.decode import decode
from gpuyard.document.encode import dump_json, load_json, plain
from gpuyard.document.read import read_file, read_json, read_text, read_toml, read_yaml, read_yaml_stream
from gpuyard.document.schema import json_schema
from gpuyard.document.settings import Plain, Settings
from gpuyard.document.shape import AtLeast, Doc, Keys
from gpuyard.document.tree import Document, Mapping, Node, Place, Scalar, Sequence

__all__ = [
    "AtLeast",
    "Doc",
    "Document",
    "Keys",
    "Mapping",
    "Node",
    "Place",
    "Plain",
    "Scalar",
    "Sequence",
    "Settings",
    "decode",
    "dump_json",
    "json_schema",
    "load_json",
    "plain",
    "read_file",
    "read_json",
    "read_text",
    "read_toml",
    "read_yaml",
    "read_yaml_stream",
]
