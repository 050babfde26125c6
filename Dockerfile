# The command `distlock` with all stores: docker build -t distlock . && docker run --rm distlock --help
FROM rust:1-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends protobuf-compiler libprotobuf-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p distlock-cli --features full

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/distlock /usr/local/bin/distlock
# Locks in a file are of use only on a volume that all containers of the machine mount.
ENTRYPOINT ["distlock"]
