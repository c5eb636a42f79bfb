"""The job of bench/data.yaml, written by hand for other engines: `python bench/data_jobs.py ENGINE RAW OUT`.

Each drops rows without a label, keeps one row of every id, fills nulls with the mean, clips to ±10, z-scores,
and writes float32 features, one column for each category, a hash bucket, a bin and the hour as zstd Parquet.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

FLOATS = [f"f{place}" for place in range(8)]
CATEGORIES = [f"category-{number}" for number in range(10)]
EDGES = [-2.0, -1.0, 0.0, 1.0, 2.0]


def pandas(raw: str, out: str) -> None:
    """pandas and a scikit-learn pipeline, in memory."""
    import numpy as np
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    frame = pd.concat(
        [pd.read_parquet(path) for path in sorted(Path(raw).glob("*.parquet"))], ignore_index=True
    )
    frame = frame[frame["label"].notna()].drop_duplicates("id", ignore_index=True)
    numbers = make_pipeline(
        SimpleImputer(strategy="mean"),
        FunctionTransformer(np.clip, kw_args={"a_min": -10, "a_max": 10}),
        StandardScaler(),
    )
    onehot = OneHotEncoder(categories=[CATEGORIES], sparse_output=False, dtype=np.uint8)
    matrix = ColumnTransformer([("numbers", numbers, FLOATS)]).fit_transform(frame)
    new = pd.DataFrame(matrix.astype(np.float32), columns=FLOATS)
    hot = onehot.fit_transform(frame[["category"]])
    for place, name in enumerate(CATEGORIES):
        new[f"category={name}"] = hot[:, place]
    first = frame["f0"].fillna(frame["f0"].mean()).clip(-10, 10)
    new["f0_bin"] = np.digitize(first, EDGES).astype(np.uint16)
    new["user_hash"] = (pd.util.hash_array(frame["user"].to_numpy(object)) % 1024).astype(np.uint32)
    new["time_hour"] = frame["time"].dt.hour.astype(np.int8)
    new["id"], new["label"] = frame["id"], frame["label"].astype(np.int64)
    new.to_parquet(Path(out) / "all.parquet", compression="zstd", compression_level=1)


def _sql(raw: str) -> tuple[str, str, str]:
    """The statements: duplicated keys, clean rows, features."""
    files = f"read_parquet('{raw}/*.parquet')"
    keys = f"create temp table twice as select id from {files} where label is not null group by id having count(*) > 1"
    clean = (
        f"select * from {files} anti join twice using (id) where label is not null union all "
        f"select distinct on (id) * from {files} semi join twice using (id) where label is not null"
    )
    # `greatest` leaves out nulls, so that a null would become a limit: guard it
    clip = "case when {0} is null then null else greatest(least({0}, 10), -10) end"
    sums = ", ".join(
        f"avg({name}) as m_{name}, sum({clip.format(name)}) as s_{name}, sum(({clip.format(name)}) ** 2) as q_{name}, "
        f"count(*) - count({name}) as n_{name}"
        for name in FLOATS
    )
    return keys, clean, f"select count(*) as n, {sums} from clean"


def duckdb(raw: str, out: str) -> None:
    """DuckDB, key-first, by SQL."""
    import duckdb as engine

    database = engine.connect()
    keys, clean, sums = _sql(raw)
    database.execute("set preserve_insertion_order = false")
    database.execute(keys)
    database.execute(f"create temp view clean as {clean}")
    found = dict(
        zip(
            *[[one[0] for one in database.execute(sums).description], database.fetchone()],
            strict=True,
        )
    )
    columns = ["id", "cast(label as bigint) as label"]
    for name in FLOATS:
        fill = min(max(found[f"m_{name}"], -10.0), 10.0)
        mean = (found[f"s_{name}"] + found[f"n_{name}"] * fill) / found["n"]
        square = (found[f"q_{name}"] + found[f"n_{name}"] * fill * fill) / found["n"]
        value = f"greatest(least(coalesce({name}, {found[f'm_{name}']!r}), 10), -10)"
        if name == "f0":
            columns.append(
                "cast("
                + " + ".join(f"({value} >= {edge})::int" for edge in EDGES)
                + " as usmallint) as f0_bin"
            )
        columns.append(
            f"cast(({value} - {mean!r}) / {(square - mean * mean) ** 0.5!r} as float) as {name}"
        )
    columns += [f"""category = '{name}' as "category={name}" """ for name in CATEGORIES]
    columns += [
        "cast(hash(user) % 1024 as uinteger) as user_hash",
        "cast(hour(time) as tinyint) as time_hour",
    ]
    columns[-2] = 'cast(hash("user") % 1024 as uinteger) as user_hash'
    database.execute(
        f"copy (select {', '.join(columns)} from clean) to '{out}/all.parquet' "
        "(format parquet, compression zstd, compression_level 1)"
    )


def daft(raw: str, out: str) -> None:
    """Daft, key-first; on Ray with DAFT_RUNNER=ray."""
    import daft as engine
    from daft import col

    if os.environ.get("DAFT_RUNNER") == "ray":
        import ray

        ray.init(
            address="local", log_to_driver=False, logging_level="error", include_dashboard=False
        )
    table = engine.read_parquet(f"{raw}/*.parquet").where(col("label").not_null())
    keys = (
        table.select("id")
        .groupby("id")
        .agg(col("id").count().alias("k"))
        .where(col("k") > 1)
        .select("id")
        .collect()
    )
    rest = table.join(keys, on="id", how="semi").distinct("id").collect()
    clean = table.join(keys, on="id", how="anti").concat(rest)
    sums = [col("id").count().alias("n")]
    for name in FLOATS:
        clipped = col(name).clip(-10, 10)
        sums += [
            col(name).mean().alias(f"m_{name}"),
            clipped.sum().alias(f"s_{name}"),
            (clipped * clipped).sum().alias(f"q_{name}"),
            col(name).count().alias(f"c_{name}"),
        ]
    found = {name: values[0] for name, values in clean.agg(*sums).to_pydict().items()}
    columns = [col("id"), col("label")]
    for name in FLOATS:
        fill, nulls = min(max(found[f"m_{name}"], -10.0), 10.0), found["n"] - found[f"c_{name}"]
        mean = (found[f"s_{name}"] + nulls * fill) / found["n"]
        square = (found[f"q_{name}"] + nulls * fill * fill) / found["n"]
        value = col(name).fill_null(found[f"m_{name}"]).clip(-10, 10)
        if name == "f0":
            bins = (value >= EDGES[0]).cast(engine.DataType.uint16())
            for edge in EDGES[1:]:
                bins = bins + (value >= edge).cast(engine.DataType.uint16())
            columns.append(bins.alias("f0_bin"))
        scaled = (value - mean) / (square - mean * mean) ** 0.5
        columns.append(scaled.cast(engine.DataType.float32()).alias(name))
    columns += [
        (col("category") == name).cast(engine.DataType.uint8()).alias(f"category={name}")
        for name in CATEGORIES
    ]
    columns.append((col("user").hash() % 1024).cast(engine.DataType.uint32()).alias("user_hash"))
    columns.append(col("time").hour().cast(engine.DataType.int8()).alias("time_hour"))
    clean.select(*columns).write_parquet(out, compression="zstd")


def _features(batch: Any, found: dict[str, Any]) -> Any:
    """The features of an Arrow table."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {"id": batch["id"], "label": batch["label"]}
    for name in FLOATS:
        value = pc.max_element_wise(
            pc.min_element_wise(pc.fill_null(batch[name], found[f"m_{name}"]), 10.0), -10.0
        )
        if name == "f0":
            columns["f0_bin"] = pa.array(np.digitize(value.to_numpy(), EDGES).astype(np.uint16))
        columns[name] = pc.divide(
            pc.subtract(value, found[f"mean_{name}"]), found[f"std_{name}"]
        ).cast(pa.float32())
    for name in CATEGORIES:
        columns[f"category={name}"] = pc.equal(batch["category"], name).cast(pa.uint8())
    import zlib

    codes = pc.dictionary_encode(batch["user"]).combine_chunks()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.chunk(0)
    buckets = np.array(
        [zlib.crc32(text.encode()) % 1024 for text in codes.dictionary.to_pylist()], dtype=np.uint32
    )
    columns["user_hash"] = pa.array(buckets[codes.indices.to_numpy()])
    columns["time_hour"] = pc.hour(batch["time"]).cast(pa.int8())
    return pa.table(columns)


def _partial(batch: Any) -> Any:
    """Sums of an Arrow table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    row: dict[str, Any] = {"n": len(batch)}
    for name in FLOATS:
        value = batch[name]
        clipped = pc.max_element_wise(
            pc.min_element_wise(value, 10.0, skip_nulls=False), -10.0, skip_nulls=False
        )
        row |= {
            f"c_{name}": len(value) - value.null_count,
            f"v_{name}": pc.sum(value).as_py() or 0.0,
            f"s_{name}": pc.sum(clipped).as_py() or 0.0,
            f"q_{name}": pc.sum(pc.multiply(clipped, clipped)).as_py() or 0.0,
        }
    return pa.table({name: [value] for name, value in row.items()})


def raydata(raw: str, out: str) -> None:
    """Ray Data with Arrow functions, key-first."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import ray

    ray.init(address="local", log_to_driver=False, logging_level="error", include_dashboard=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    keys = ray.data.read_parquet(raw, columns=["id", "label"]).map_batches(
        lambda batch: batch.filter(pc.is_valid(batch["label"])).select(["id"]),
        batch_format="pyarrow",
        batch_size=None,
    )
    ids = np.sort(np.concatenate([batch["id"] for batch in keys.iter_batches(batch_size=None)]))
    twice = pa.array(np.unique(ids[1:][ids[1:] == ids[:-1]]))
    shared = ray.put(twice)

    def once(batch: Any) -> Any:
        """Rows whose id stands once."""
        batch = batch.filter(pc.is_valid(batch["label"]))
        return batch.filter(pc.invert(pc.is_in(batch["id"], value_set=ray.get(shared))))

    def often(batch: Any) -> Any:
        """Rows whose id stands more often."""
        batch = batch.filter(pc.is_valid(batch["label"]))
        return batch.filter(pc.is_in(batch["id"], value_set=ray.get(shared)))

    table = ray.data.read_parquet(raw)
    parts = [
        ray.get(one)
        for one in table.map_batches(often, batch_format="pyarrow", batch_size=None).to_arrow_refs()
    ]
    more = pa.concat_tables([part for part in parts if len(part)])
    first = np.unique(more["id"].to_numpy(), return_index=True)[1]
    more = more.take(pa.array(first))
    clean = table.map_batches(once, batch_format="pyarrow", batch_size=None)
    rows = clean.map_batches(_partial, batch_format="pyarrow", batch_size=None).take_all()
    rows += _partial(more).to_pylist()
    total = {key: sum(row[key] for row in rows) for key in rows[0]}
    found: dict[str, Any] = {}
    for name in FLOATS:
        found[f"m_{name}"] = total[f"v_{name}"] / total[f"c_{name}"]
        fill, nulls = min(max(found[f"m_{name}"], -10.0), 10.0), total["n"] - total[f"c_{name}"]
        mean = (total[f"s_{name}"] + nulls * fill) / total["n"]
        found[f"mean_{name}"] = mean
        found[f"std_{name}"] = (
            (total[f"q_{name}"] + nulls * fill * fill) / total["n"] - mean * mean
        ) ** 0.5
    whole = clean.union(ray.data.from_arrow(more))
    whole.map_batches(
        _features, batch_format="pyarrow", batch_size=None, fn_kwargs={"found": found}
    ).write_parquet(out, compression="zstd", compression_level=1)


def main() -> None:
    """Runs one engine."""
    name, raw, out = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    {"pandas": pandas, "duckdb": duckdb, "daft": daft, "raydata": raydata}[name](raw, out)


if __name__ == "__main__":
    main()
