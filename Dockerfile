# The search page of `ap-ranker serve` in a container. How to run it: docs/deployment.md.
#
#   docker build --tag ap-ranker .                                                      for machines without a GPU
#   docker build --tag ap-ranker:gpu --build-arg TORCH_INDEX=https://pypi.org/simple .  with torch's CUDA build
#
# Python's image is named by its digest, so that nobody can put another one in its place; so are libraries, by hashes.
# The latest digest:     docker buildx imagetools inspect python:3.12-slim --format '{{.Manifest.Digest}}'
# The latest libraries:  make lock
ARG PYTHON=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

FROM ${PYTHON} AS build
ARG TORCH=torch==2.13.0
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /source
# What builds ap-ranker is in an environment of its own, which stays in this stage.
RUN python -m venv /opt/build && python -m venv /opt/ap-ranker
# Before the code, so that a change of the code does not install all libraries again.
COPY deploy/build.txt deploy/requirements.txt deploy/
RUN /opt/build/bin/pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: --requirement deploy/build.txt
ENV PATH=/opt/ap-ranker/bin:$PATH
RUN pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: --requirement deploy/requirements.txt
# By its version alone, as each of its indexes has builds of its own. A build for CPUs needs nothing that is not there by now.
RUN pip install --no-cache-dir --index-url "${TORCH_INDEX}" "${TORCH}"
COPY pyproject.toml README.md LICENSE ./
COPY ap_ranker ap_ranker
COPY haystack_integrations haystack_integrations
COPY pipelines pipelines
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip install --no-cache-dir --no-deps /wheels/*.whl \
    && pip check

FROM ${PYTHON}
RUN useradd --system --uid 10001 --no-create-home ap-ranker \
    && install --directory --owner=ap-ranker --group=ap-ranker /data /state
COPY --from=build /opt/ap-ranker /opt/ap-ranker
# /tmp is all that is written to beside /state, so that the file system may be read-only.
ENV PATH=/opt/ap-ranker/bin:$PATH \
    HOME=/tmp \
    AP_RANKER_DATABASE=/state/faq.db \
    HF_HUB_OFFLINE=1 \
    HAYSTACK_TELEMETRY_ENABLED=false \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001
# /data: FAQ.csv or documents, and checkpoints/faq if there is one; only read. /state: the database, of what visitors say and the owner changes.
WORKDIR /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/live', timeout=4)"]
ENTRYPOINT ["ap-ranker"]
# A container listens on all of its addresses; which of them are reached from where, `docker run --publish` says.
CMD ["serve", "FAQ.csv", "--host", "0.0.0.0"]
