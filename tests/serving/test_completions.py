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
from gpuyard.serving.completion_requests import read_chat, read_completion
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.spec import ServedModel

from .cases import LONG_S, ask, register, serving, until

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
    fast.chat_template = (
        "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}"
        "{% if add_generation_prompt %}w9 {% endif %}"
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
    with urllib.request.urlopen(f"{url}/v1/completions", body, timeout=LONG_S) as answer:
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
        ({"n": 100}, 400, "n times prompts"),
        ({"prompt": [1, "w1"]}, 400, "mixes token ids and texts"),
        ({"prompt": ["w1", ""]}, 400, "no tokens"),
        ({"logit_bias": {"99999": 1}}, 400, "must be below 62"),
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
        ("best_of", 2),
        ("suffix", "end"),
    ],
)
def test_fields_that_would_change_the_text_are_refused(field: str, value: object) -> None:
    body = {"model": "lm", "prompt": "w1"}
    with pytest.raises(RequestError, match=f"{field} is not supported") as caught:
        read_completion(json.dumps({**body, field: value}).encode())
    assert caught.value.status == 400
    (generation,) = read_completion(json.dumps({**body, field: None}).encode()).generations
    assert generation.prompt == "w1"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tools": [{}]}, "tools is not supported"),
        ({"messages": []}, "messages is empty"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url"),
        ({"top_logprobs": 2}, "top_logprobs needs logprobs"),
        ({"presence_penalty": 3}, "presence_penalty must be between"),
        ({"logit_bias": {"a": 1}}, "keys must be token ids"),
        ({"response_format": {"type": "json_schema"}}, "json_schema needs a schema"),
    ],
)
def test_chats_that_cannot_be_answered_are_refused(fields: dict[str, object], message: str) -> None:
    body = {"model": "lm", "messages": [{"role": "user", "content": "w1"}], **fields}
    with pytest.raises(RequestError, match=message):
        read_chat(json.dumps(body).encode())


def test_lists_of_prompts_and_n_give_a_choice_each(url: str) -> None:
    answer = complete(url, prompt=["w1 w2", "w3 w4"], n=2, max_tokens=4)[1]
    choices: list[dict[str, object]] = answer["choices"]  # type: ignore[assignment]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    single = text(complete(url, prompt="w1 w2", max_tokens=4)[1])
    assert choices[0]["text"] == choices[1]["text"] == single
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 16, "total_tokens": 20}
    drawn = complete(url, n=3, seed=4, temperature=1.5, max_tokens=8)[1]["choices"]
    assert len({choice["text"] for choice in drawn}) > 1  # type: ignore[attr-defined]
    streamed: dict[int, str] = {0: "", 1: ""}
    for event in events(url, prompt=["w1 w2", "w5"], max_tokens=4)[:-1]:
        (choice,) = json.loads(event)["choices"]
        streamed[choice["index"]] += choice["text"]
    assert streamed[0] == single


def test_log_probabilities_are_those_of_the_model(url: str, folder: Path) -> None:
    import torch
    import transformers

    weights = str(folder / WEIGHTS)
    model = transformers.AutoModelForCausalLM.from_pretrained(weights)
    answer = complete(url, prompt=[[3, 4, 5]], echo=True, logprobs=2, max_tokens=1)[1]
    scores = answer["choices"][0]["logprobs"]  # type: ignore[index]
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        logs = torch.log_softmax(model(ids).logits[0].float(), dim=-1)
    wanted = [float(logs[0, 4]), float(logs[1, 5]), float(logs[2].max())]
    assert scores["token_logprobs"][0] is None
    assert scores["token_logprobs"][1:] == pytest.approx(wanted, abs=1e-5)
    assert scores["tokens"][:3] == ["w1", "w2", "w3"]
    assert [len(top) for top in scores["top_logprobs"][1:]] == [2, 2, 2]
    nothing_new = complete(url, prompt="w1 w2", echo=True, logprobs=1, max_tokens=0)[1]
    assert text(nothing_new) == "w1 w2"


def test_penalties_and_bias_change_the_tokens(url: str) -> None:
    forced = complete(url, logit_bias={"7": 100}, max_tokens=3)[1]
    assert text(forced) == "w5 w5 w5"
    spread = complete(url, logit_bias={"7": 1, "8": 0.9}, frequency_penalty=2, max_tokens=6)[1]
    assert len(set(text(spread).split())) > 2


def chat(url: str, **fields: object) -> dict[str, object]:
    body = {"model": "lm", "messages": [{"role": "user", "content": "w1 w2"}], "temperature": 0}
    status, answer = ask(f"{url}/v1/chat/completions", body | fields)
    assert status == 200, answer
    assert isinstance(answer, dict)
    return answer


def test_chat_is_rendered_with_the_template_of_the_model(url: str) -> None:
    answer = chat(url, max_tokens=5, logprobs=True, top_logprobs=1)
    (choice,) = answer["choices"]  # type: ignore[misc]
    plain = complete(url, prompt="user w1 w2 w9", max_tokens=5)[1]
    assert choice["message"]["content"] == text(plain)
    assert choice["message"]["role"] == "assistant"
    assert len(choice["logprobs"]["content"]) == 5
    assert answer["object"] == "chat.completion"
    body = {"model": "lm", "messages": [{"role": "user", "content": "w1 w2"}]}
    request = json.dumps(body | {"temperature": 0, "max_tokens": 5, "stream": True}).encode()
    with urllib.request.urlopen(f"{url}/v1/chat/completions", request, timeout=LONG_S) as stream:
        lines = [line[6:] for line in stream.read().decode().splitlines() if line]
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta["content"] for delta in deltas) == text(plain)
    assert len(chat(url)["choices"][0]["message"]["content"].split()) > 50  # type: ignore[index]
