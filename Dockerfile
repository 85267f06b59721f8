# Three images:
#   docker build --target cpu    --tag babelray:0.1.0-cpu .       Ray's head, CPU workers, submitters
#   docker build --target gpu    --tag babelray:0.1.0-gpu .       GPU workers; the node needs only NVIDIA's driver
#   docker build --target mlflow --tag babelray:0.1.0-mlflow .    the tracking server
# Every package is pinned with its hash (k8s/image/lock.py). PyTorch's builds for CPU are in a separate index: pass it
# as --build-arg PIP_EXTRA_INDEX_URL=...; neither index argument is stored in an image.
ARG PYTHON=python:3.11-slim-bookworm

# g++ stays in the images: torch.compile and DeepSpeed compile operators at their first use.
FROM ${PYTHON} AS system
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

FROM system AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ENV PATH=/opt/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv

# Wheels first: building the packages without wheels requires them (DeepSpeed imports torch).
FROM build AS build-cpu
COPY k8s/image/cpu.txt k8s/image/cpu-source.txt /tmp/
RUN pip install --require-hashes --no-deps --only-binary :all: --requirement /tmp/cpu.txt \
    && pip install --require-hashes --no-deps --no-build-isolation --requirement /tmp/cpu-source.txt

FROM build AS build-gpu
COPY k8s/image/gpu.txt k8s/image/gpu-source.txt /tmp/
RUN pip install --require-hashes --no-deps --only-binary :all: --requirement /tmp/gpu.txt \
    && pip install --require-hashes --no-deps --no-build-isolation --requirement /tmp/gpu-source.txt

FROM build AS build-mlflow
COPY k8s/image/mlflow.txt /tmp/
RUN pip install --require-hashes --no-deps --only-binary :all: --requirement /tmp/mlflow.txt

FROM system AS cpu
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --uid 1000 --create-home babelray
COPY --from=build-cpu /opt/venv /opt/venv
# Jobs start in this folder: their paths are relative to it.
WORKDIR /opt/babelray
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable .
USER 1000:1000

FROM system AS gpu
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --uid 1000 --create-home babelray
COPY --from=build-gpu /opt/venv /opt/venv
WORKDIR /opt/babelray
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable .
USER 1000:1000

FROM ${PYTHON} AS mlflow
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --uid 1000 --create-home mlflow
COPY --from=build-mlflow /opt/venv /opt/venv
WORKDIR /home/mlflow
USER 1000:1000
