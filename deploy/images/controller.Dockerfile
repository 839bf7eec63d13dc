# Build from the repository's root: docker build -f deploy/images/controller.Dockerfile -t evacuation-controller:0.1.0 .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release -p evacuation-controller \
    && install -D target/release/evacuation-controller /out/evacuation-controller

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/evacuation-controller /evacuation-controller
USER 65532:65532
ENTRYPOINT ["/evacuation-controller"]
