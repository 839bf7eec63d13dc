# Build from the repository's root: docker build -f deploy/images/gateway.Dockerfile -t evacuation-gateway:0.1.0 .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release -p evacuation-gateway \
    && install -D target/release/evacuation-gateway /out/evacuation-gateway

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/evacuation-gateway /evacuation-gateway
USER 65532:65532
ENTRYPOINT ["/evacuation-gateway"]
