# syntax=docker/dockerfile:1

# One image for every part of the service: serve, worker and migrate. Without configuration, serve runs all parts.

FROM python:3.13-slim AS weights
WORKDIR /pull
# These files need only the standard library, so that the models are fetched again only when they change.
COPY app/__init__.py app/errors.py app/
COPY app/inference/embedding/weights.py app/inference/embedding/local_models.py app/inference/embedding/
COPY app/inference/embedding/notices app/inference/embedding/notices
RUN python -m app.inference.embedding.weights /models all

FROM python:3.13-slim AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
# Dependencies before sources: this layer is built again only when a lock changes.
COPY requirements-runtime.lock requirements-build.lock ./
RUN python -m venv /opt/carrel \
    && /opt/carrel/bin/pip install --no-deps --require-hashes --only-binary=:all: -r requirements-runtime.lock \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --no-deps --require-hashes --only-binary=:all: -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY migrations migrations
COPY samples samples
COPY clients clients
COPY carrel carrel
COPY app app
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/carrel/bin/pip install --no-deps --no-index dist/*.whl

FROM python:3.13-slim
# LIBREOFFICE=yes installs LibreOffice, which converts DOC and PPT files. It more than doubles the size of the image.
ARG LIBREOFFICE=no
# Language data for OCR of images and scans. Tesseract's program is not needed.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tesseract-ocr-eng \
    && if [ "$LIBREOFFICE" = yes ]; then \
        apt-get install --yes --no-install-recommends libreoffice-writer-nogui libreoffice-impress-nogui; \
    fi \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin carrel \
    && install --directory --owner carrel --group carrel --mode 0700 /data
COPY --from=weights /models /opt/models
COPY --from=builder /opt/carrel /opt/carrel
ENV PATH=/opt/carrel/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    CARREL_DATA_DIR=/data \
    CARREL_EMBEDDING_WEIGHTS_DIR=/opt/models
COPY sbom.cdx.json /opt/carrel/sbom.cdx.json
USER 10001
# Not the data directory: a file there must never become a module or a settings file of the next start.
WORKDIR /
VOLUME /data
EXPOSE 8000
# Only for the API; a container that runs another command disables it.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-I", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ.get('CARREL_PORT', '8000') + '/healthz', timeout=4)"]
ENTRYPOINT ["carrel"]
CMD ["serve", "--host", "0.0.0.0"]
