# Build from the repository's root: docker build -f deploy/images/agent.Dockerfile -t evacuation-agent:0.1.0 .
# The program is static: it runs in any image, and `evacuation-agent install` copies it into the app's.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo rustc --locked --profile small -p evacuation-agent --bin evacuation-agent -- -C target-feature=+crt-static \
    && install -D target/small/evacuation-agent /out/evacuation-agent

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/evacuation-agent /evacuation-agent
USER 65532:65532
ENTRYPOINT ["/evacuation-agent"]
