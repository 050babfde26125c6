# The command `distlock` with all stores: docker build -t distlock . && docker run --rm distlock --help
# No test builds this image; what it calls, `make command`, builds the same program without it.
FROM rust:1-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends protobuf-compiler libprotobuf-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN make command

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/distlock /usr/local/bin/distlock
# Locks in a file are of use only on a volume that all containers of the machine mount.
ENTRYPOINT ["distlock"]
