"""A small language model, made here, behind the OpenAI form of completions."""

from __future__ import annotations

import json
import os
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gpuyard.home import Home
from gpuyard.registry.bundle import WEIGHTS, ModelBundle, Tensor, write_bundle
from gpuyard.serving.completions import read_completion
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.spec import ServedModel

from .cases import ask, register, serving, until

if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")

WORDS = [f"w{number}" for number in range(60)]


def language_model(folder: Path) -> Path:
    """A bundle with a tiny Llama of random weights and a tokenizer of sixty words."""
    import tokenizers
    import torch
    import transformers

    weights = folder / WEIGHTS
    weights.mkdir(parents=True)
    vocabulary = {word: number for number, word in enumerate(["<unk>", "<end>", *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", eos_token="<end>"
    )
    fast.save_pretrained(str(weights))
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=128,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(str(weights))
    tokens = Tensor(name="tokens", dtype="int64")
    write_bundle(
        folder,
        ModelBundle(
            kind="language", trainer="torch_transformer", inputs=(tokens,), outputs=(tokens,)
        ),
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return language_model(tmp_path_factory.mktemp("language") / "lm")


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = Home(path=tmp_path_factory.mktemp("home"))
    register(home, "lm", folder)
    with serving(home, (ServedModel(name="lm", reference="lm"),)) as endpoint:
        yield endpoint.url


def complete(url: str, **fields: object) -> tuple[int, dict[str, object]]:
    status, answer = ask(
        f"{url}/v1/completions", {"model": "lm", "prompt": "w1 w2 w3", "temperature": 0} | fields
    )
    assert isinstance(answer, dict)
    return status, answer


def text(answer: dict[str, object]) -> str:
    return str(answer["choices"][0]["text"])  # type: ignore[index]


def test_greedy_text_is_that_of_transformers(url: str, folder: Path) -> None:
    import torch
    import transformers

    status, answer = complete(url, max_tokens=12)
    assert status == 200
    weights = str(folder / WEIGHTS)
    model = transformers.AutoModelForCausalLM.from_pretrained(weights)
    tokenizer = transformers.AutoTokenizer.from_pretrained(weights)
    prompt = tokenizer("w1 w2 w3", return_tensors="pt")["input_ids"]
    made = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=12,
        do_sample=False,
        pad_token_id=1,
    )
    assert text(answer) == tokenizer.decode(made[0, 3:], skip_special_tokens=True)
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 12, "total_tokens": 15}
    assert answer["choices"][0]["finish_reason"] == "length"  # type: ignore[index]


def test_same_seed_gives_same_text(url: str) -> None:
    one, same, other = (
        complete(url, max_tokens=20, temperature=1.5, seed=seed)[1] for seed in (5, 5, 6)
    )
    assert text(one) == text(same)
    assert text(one) != text(other)


def test_stop_sequence_ends_text(url: str) -> None:
    whole = text(complete(url, max_tokens=12)[1])
    mark = whole.split()[5]
    answer = complete(url, max_tokens=12, stop=[mark])[1]
    assert text(answer) == whole[: whole.index(mark)]
    assert answer["choices"][0]["finish_reason"] == "stop"  # type: ignore[index]


def events(url: str, **fields: object) -> list[str]:
    body = json.dumps(
        {"model": "lm", "prompt": "w1 w2 w3", "temperature": 0, "stream": True} | fields
    ).encode()
    with urllib.request.urlopen(f"{url}/v1/completions", body, timeout=20) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        return [line.removeprefix("data: ") for line in answer.read().decode().splitlines() if line]


@pytest.mark.parametrize("stop", [None, "w"])
def test_stream_chunks_add_up_to_full_text(url: str, stop: str | None) -> None:
    whole = complete(url, max_tokens=12, stop=stop)[1]
    *parts, end = events(url, max_tokens=12, stop=stop, stream_options={"include_usage": True})
    assert end == "[DONE]"
    *texts, usage = (json.loads(part) for part in parts)
    assert "".join(part["choices"][0]["text"] for part in texts) == text(whole)
    assert usage["usage"] == whole["usage"]
    if stop is None:
        assert len(texts) > 5


def test_disconnected_client_frees_model(url: str) -> None:
    parts = urlsplit(url)
    body = json.dumps(
        {"model": "lm", "prompt": "w1", "max_tokens": 100, "temperature": 1, "stream": True}
    ).encode()
    for _ in range(5):
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as link:
            link.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )
            assert b" 200 " in link.recv(100)
    assert complete(url, max_tokens=2)[0] == 200


def test_requests_at_once_are_all_answered(url: str) -> None:
    wanted = complete(url, max_tokens=5)[1]
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(text(complete(url, max_tokens=5)[1])))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [text(wanted)] * 6


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"model": "none"}, 404, "is not served"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": 1000}, 400, "context length of 128"),
        ({"prompt": ""}, 400, "no tokens"),
        ({"prompt": [1, 2, 99999]}, 400, "must be below 62"),
        ({"prompt": {"a": 1}}, 400, "invalid request"),
        ({"temperature": -1}, 400, "temperature"),
        ({"n": 2}, 400, "n must be 1"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_invalid_request_names_the_problem(
    url: str, fields: dict[str, object], status: int, said: str, stream: bool
) -> None:
    found, answer = complete(url, stream=stream, **fields)
    assert found == status
    assert said in answer["error"]["message"]  # type: ignore[index]


def test_models_are_listed_and_counted(url: str) -> None:
    status, answer = ask(f"{url}/v1/models")
    assert status == 200
    assert [item["id"] for item in answer["data"]] == ["lm"]  # type: ignore[index]
    assert ask(f"{url}/v2/models/lm/ready")[0] == 200
    assert ask(f"{url}/v2/models/lm/infer", {})[0] in (404, 405)
    assert complete(url, max_tokens=1)[0] == 200
    until(
        lambda: (
            'gpuyard_requests_total{model="lm",version="1",code="200"}'
            in str(ask(f"{url}/metrics")[1])
        )
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("logprobs", 3),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -1),
        ("best_of", 2),
        ("suffix", "end"),
        ("logit_bias", {"5": 10}),
    ],
)
def test_fields_that_would_change_the_text_are_refused(field: str, value: object) -> None:
    body = {"model": "lm", "prompt": "w1"}
    with pytest.raises(RequestError, match=f"{field} is not supported") as caught:
        read_completion(json.dumps({**body, field: value}).encode())
    assert caught.value.status == 400
    assert read_completion(json.dumps({**body, field: None}).encode()).prompt == "w1"
