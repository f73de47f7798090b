# Headrace with its Java. The workspace is mounted at /workspace; `docker compose` (compose.yaml) adds Kafka and PostgreSQL.
FROM python:3.11.14-slim-bookworm

RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /build
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --no-deps --no-build-isolation . && rm -rf /build

RUN useradd --uid 1000 --create-home headrace && mkdir /workspace && chown headrace /workspace
USER headrace
WORKDIR /workspace
EXPOSE 8090
ENTRYPOINT ["headrace"]
CMD ["up", "--host", "0.0.0.0", "--port", "8090"]
