"""Image datasets: real photographs, all modes and shapes, and files that are not images."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sklearn.datasets

from gpuyard.datasets.columns import Column, Columns
from gpuyard.datasets.images import Images, Pixels, Readable, image_frame, read_images
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError

if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
    pytest.importorskip("PIL")
from PIL import Image

PHOTOS = Path(sklearn.datasets.__file__).parent / "images"
COLUMNS = Columns(
    items=(
        Column(name="path", dtype="String"),
        Column(name="class", dtype="String"),
        Column(name="image", dtype="Binary"),
    )
)


def encoded(array: np.ndarray, form: str = "PNG", mode: str | None = None) -> bytes:
    buffer = io.BytesIO()
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(buffer, form)
    return buffer.getvalue()


def pixels_of(step: Images) -> Pixels:
    return step.bind(COLUMNS, "steps[0]").fit_state({}, COLUMNS)[0]


def decoded(step: Images, contents: bytes) -> np.ndarray:
    part = pixels_of(step)
    pixels = part.pixels(contents)
    assert pixels is not None
    return np.frombuffer(pixels, np.uint8).reshape(part.shape)


def test_images_are_packed_into_shards(tmp_path: Path) -> None:
    files = [
        ("photos/china/china.jpg", (PHOTOS / "china.jpg").read_bytes()),
        ("photos/flower/flower.jpg", (PHOTOS / "flower.jpg").read_bytes()),
    ]
    frame = image_frame(
        [
            *files,
            ("photos/flower/bad.jpg", b"no image"),
            ("photos/flower/empty.png", b""),
            ("photos/china/cut.jpg", files[0][1][:5000]),
        ]
    )
    assert frame["class"].to_list() == ["china", "flower", "flower", "flower", "china"]
    step = Images(height=48, width=64).bind(COLUMNS, "steps[0]")
    pixels, readable = step.fit_state({}, COLUMNS)
    after = pixels.after(COLUMNS)
    done = frame.lazy().with_columns(pixels.expressions()).select(after.names).collect()
    good, bad = done.filter(readable.keep()), done.filter(~readable.keep())
    assert good.height + bad.height == frame.height
    assert bad["path"].to_list() == [
        "photos/flower/bad.jpg",
        "photos/flower/empty.png",
        "photos/china/cut.jpg",
    ]
    assert readable.quarantined
    assert pixels.writer().write(good, str(tmp_path / "part-0.npy")) == 2
    shards = read_images([tmp_path / "part-0.npy"])
    assert (len(shards), shards.classes, shards.labels().tolist()) == (
        2,
        ("china", "flower"),
        [0, 1],
    )
    batch = next(shards.batches(8))
    assert batch.shape == (2, 48, 64, 3)
    assert batch.dtype == np.float32
    assert 0.0 <= batch.min() < batch.max() <= 1.0
    photo = np.asarray(Image.open(PHOTOS / "china.jpg"), dtype=np.float64)
    np.testing.assert_allclose(
        batch[0].mean(axis=(0, 1)) * 255, photo.mean(axis=(0, 1)), atol=2.0
    )  # its colours


def test_channel_order_and_scale_apply_when_reading(tmp_path: Path) -> None:
    contents = encoded(np.full((10, 20, 3), (255, 0, 51), dtype=np.uint8))
    step = Images(height=4, width=6, order="first", scale=False)
    part = pixels_of(step)
    frame = pl.DataFrame({"class": ["a"], "image": [part.pixels(contents)]})
    part.writer().write(frame, str(tmp_path / "a.npy"))
    batch = next(read_images([tmp_path / "a.npy"]).batches(1))
    assert batch.shape == (1, 3, 4, 6)
    assert batch[0, :, 0, 0].tolist() == [255.0, 0.0, 51.0]


def test_resize_modes_crop_pad_and_stretch() -> None:
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = 200  # bright in the middle third
    contents = encoded(wide)
    assert decoded(Images(height=10, width=10, fit="crop"), contents).min() == 200
    assert decoded(Images(height=10, width=10, fit="pad"), contents)[0].max() == 0
    assert decoded(Images(height=10, width=30), contents).tolist() == wide.tolist()
    assert decoded(Images(height=5, width=7, channels="grey"), contents).shape == (5, 7, 1)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I;16"])
def test_all_image_modes_are_decoded(mode: str) -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    contents = (
        encoded(grey.astype(np.uint16) * 257)
        if mode == "I;16"
        else encoded(np.stack([grey] * 3, -1), "TIFF" if mode == "CMYK" else "PNG", mode)
    )
    assert decoded(Images(height=16, width=16), contents).shape == (16, 16, 3)


def test_exif_rotation_is_applied() -> None:
    image = Image.fromarray(
        np.concatenate([np.zeros((8, 16), np.uint8), np.full((8, 16), 255, np.uint8)])
    )
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", exif=exif)
    assert decoded(Images(height=16, width=16), buffer.getvalue())[0].mean() > 200


def test_decompression_bomb_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = encoded(np.zeros((100, 100), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 9000)  # a warning by Pillow, not an error
    frame = image_frame([("a/x.png", contents)])
    part = pixels_of(Images())
    assert frame.with_columns(part.expressions())["image"].to_list() == [None]


def test_image_parts_round_trip_as_json() -> None:
    for part in Images().fit_state({}, COLUMNS):
        assert load_json(dump_json(part), type(part)) == part  # type: ignore[arg-type]
    assert Readable(column="image").reason() == "not an image that can be decoded"


def test_wrong_image_settings_and_shards_raise_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="0 pixels is out of range"):
        Images(height=0).bind(COLUMNS, "steps[0]")
    with pytest.raises(InputError, match="not encoded images"):
        Images(column="path").bind(COLUMNS, "steps[0]")
    with pytest.raises(InputError, match="no such shard"):
        read_images([tmp_path / "a.npy"])
    part = pixels_of(Images(height=2, width=2))
    part.writer().write(
        pl.DataFrame({"class": ["a"], "image": [bytes(12)]}), str(tmp_path / "a.npy")
    )
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY garbage")
    with pytest.raises(InputError, match="not a shard of images"):
        read_images([tmp_path / "a.npy"])
