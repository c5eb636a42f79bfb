# gpuyard in a container: docker build -t gpuyard . && docker run --rm -v "$PWD:/work" gpuyard plan workload.yaml
# EXTRAS=[run,jax] adds data, training and serving: docker build --build-arg EXTRAS='[run,jax]' -t gpuyard .
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE CHANGELOG.md constraints.txt ./
COPY src src
COPY examples examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ARG EXTRAS=""
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/gpuyard-*.whl)${EXTRAS}" && rm -r /wheels \
    && useradd --create-home gpuyard && mkdir /work && chown gpuyard /work
USER gpuyard
WORKDIR /work
ENTRYPOINT ["gpuyard"]
CMD ["--help"]
