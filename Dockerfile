# The image has the static binary and the CA certificates, and nothing else.
#
#   docker build -t delegate-upgrader .     compiles in a container
#   make image                              uses a binary that is already built; pulls nothing
#
# The stages without a base come first: the classic builder stops at `prebuilt` before it asks for the Rust image.
ARG RUST_IMAGE=rust:1-alpine

FROM scratch AS runtime
ARG VERSION=dev
LABEL org.opencontainers.image.title="delegate-upgrader" \
      org.opencontainers.image.description="Keeps Harness Docker delegates healthy and current" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# It runs as root because it needs access to the Docker socket that is mounted into it.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/delegate-upgrader", "healthcheck"]
ENTRYPOINT ["/delegate-upgrader"]

FROM runtime AS prebuilt
COPY dist/ /

FROM ${RUST_IMAGE} AS builder
RUN apk add --no-cache musl-dev ca-certificates
WORKDIR /build
COPY Cargo.toml Cargo.lock build.rs ./
COPY src src
# Cargo reads the manifests of the whole workspace and requires each target that they name.
COPY examples examples
COPY tests tests
RUN cargo build --release --locked --bin delegate-upgrader

FROM runtime
COPY --from=builder /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=builder /build/target/release/delegate-upgrader /delegate-upgrader
